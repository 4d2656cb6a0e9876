"""A durable job: begun once, worked on by any number of processes, complete in the end."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import deepinfer
from deepinfer.batch.atomic_file import remove_leftovers
from deepinfer.batch.claim import Claim
from deepinfer.batch.engine_fields import MODEL_FIELDS, resolve_fields, run_fields
from deepinfer.batch.input_file import InputFile
from deepinfer.batch.job_directory import JobDirectory
from deepinfer.batch.job_manifest import JobManifest
from deepinfer.batch.job_model import JobModel
from deepinfer.batch.job_request import JobRequest
from deepinfer.batch.openai_rows import OpenAIRows
from deepinfer.batch.plain_rows import PlainRows
from deepinfer.batch.row_index import RowIndex
from deepinfer.batch.row_parser import RowParser
from deepinfer.batch.row_preparer import RowPreparer
from deepinfer.batch.row_reader import RowReader
from deepinfer.errors import JobError
from deepinfer.text.chat_options import ChatOptions

_BUNDLED: Final = "deepinfer-mini"


@dataclass(frozen=True)
class BatchJob:
    """A job whose manifest, input and model were checked; made by `begin` or `open`. No weights are loaded.

    Attributes:
        directory: of the job.
        manifest: what it is.
        model: tokenizer, prompt format and defaults.
    """

    directory: JobDirectory
    manifest: JobManifest
    model: JobModel

    @classmethod
    def begin(cls, request: JobRequest, root: Path) -> BatchJob:
        """Begin a job in a new or empty directory; the same request again finds the job as it is.

        Places of input and model, and options that change no result, are then those of the new request.

        Reads the whole input once. Raises JobError for an input that cannot be used, duplicate ids, a directory of
        another job or with files of others; ConfigError, CheckpointError and RequestError for wrong options.
        """
        directory = JobDirectory(root)
        options = {"generation_config": "auto", "load_format": "auto", **request.engine}
        model = JobModel.read(options)
        draft = _draft(request, model, options)
        directory.prepare()
        claim = Claim.take(directory.claim("begin"), "begin", wait=True)
        assert claim is not None, "it was waited for"
        try:
            if directory.manifest.exists():
                manifest = _same_job(JobManifest.read(directory.manifest), draft, request)
            else:
                manifest = _write(directory, draft, request)
        finally:
            claim.release()
        return cls(directory, manifest, model)

    @classmethod
    def open(cls, root: Path) -> BatchJob:
        """A job that was begun. Raises JobError when manifest, input or model are not those of then."""
        directory = JobDirectory(root)
        manifest = JobManifest.read(directory.manifest)
        manifest.input.require_same(manifest.input_path)
        model = JobModel.read({**manifest.engine, **manifest.where})
        model.require_same(manifest.model)
        return cls(directory, manifest, model)

    def reader(self) -> RowReader:
        """A reader of the rows; the caller closes it."""
        manifest = self.manifest
        index = RowIndex(self.directory.index, manifest.num_rows)
        return RowReader(manifest.input.open(manifest.input_path), parser_of(manifest), index)

    def preparer(self) -> RowPreparer:
        """Prepares the rows."""
        return RowPreparer(self.manifest, self.model)

    def engine_options(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Options of an `LLM` for this job.

        Args:
            changes: options that change no result, other than when the job began.
        """
        manifest = self.manifest
        model = {name: manifest.where.get(name) for name in MODEL_FIELDS}
        yoco = {name: value for name, value in manifest.engine["yoco"].items() if value is not None}
        return {**model, **manifest.run, **changes, **manifest.engine, "yoco": yoco}


def parser_of(manifest: JobManifest) -> RowParser:
    """The reader of the input's lines."""
    return OpenAIRows() if manifest.input.format == "openai" else PlainRows(manifest.columns)


def _draft(request: JobRequest, model: JobModel, options: Mapping[str, Any]) -> JobManifest:
    """The manifest of a job whose rows were not counted yet."""
    with _known_names():
        ChatOptions.of(request.chat)
        sampling = model.defaults.params.replace(**request.sampling).to_dict()
        engine = resolve_fields(options, model.config)
    named = options.get("model")
    where = {name: _absolute(options.get(name)) for name in MODEL_FIELDS}
    return JobManifest(
        deepinfer=deepinfer.__version__,
        input=InputFile.examine(request.input, request.format, request.max_row_bytes),
        columns=request.columns,
        sampling=sampling,
        chat=dict(request.chat),
        seed=request.seed,
        model_name=_BUNDLED if named is None else Path(named).name,
        model=model.identity,
        engine=engine,
        token_ids=request.token_ids,
        num_rows=0,
        range_rows=0,
        where={"input": str(request.input.resolve()), **where},
        run=run_fields(options),
    )


@contextmanager
def _known_names() -> Generator[None, None, None]:
    """Inside, a name that no option has is an error of the request; its message says which names there are."""
    try:
        yield
    except TypeError as error:
        raise JobError(str(error)) from error


def _absolute(name: str | None) -> str | None:
    """A path that is found from anywhere; a hub id stays what it is."""
    return str(Path(name).resolve()) if name is not None and Path(name).exists() else name


def _same_job(known: JobManifest, draft: JobManifest, request: JobRequest) -> JobManifest:
    rows, per_range = known.num_rows, request.range_rows or known.range_rows
    known.require_same(replace(draft, num_rows=rows, range_rows=per_range))
    changes = {name: draft.run[name] for name in request.engine if name in draft.run}
    return replace(known, where=draft.where, run={**known.run, **changes})


def _write(directory: JobDirectory, draft: JobManifest, request: JobRequest) -> JobManifest:
    remove_leftovers(directory.index)
    source = draft.input.open(draft.input_path)
    try:
        index = RowIndex.build(directory.index, source, parser_of(draft))
    finally:
        source.close()
    num_rows = len(index)
    manifest = replace(draft, num_rows=num_rows, range_rows=request.rows_per_range(num_rows))
    manifest.write(directory.manifest)
    return manifest
