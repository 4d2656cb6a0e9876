"""One row's life: where it stands, what became of it, when and where it ran."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from deepinfer.batch.batch_job import BatchJob
from deepinfer.batch.claim import Claim
from deepinfer.batch.part_contents import PartContents
from deepinfer.batch.prepared_row import PreparedRow
from deepinfer.outputs import RequestFailure


@dataclass(frozen=True, slots=True)
class RowStory:
    """Made by `read`.

    Attributes:
        row, custom_id: of the input.
        range: which it belongs to.
        state: "waiting", "being worked on", "done" or "failed".
        key: what its result depends on, hashed.
        num_prompt_tokens: of the prompt; None for a row that cannot be read.
        prompt: the text behind those ids, special tokens spelled out; None for a row that cannot be read.
        params: sampling parameters that differ from the class's defaults.
        error: why it cannot be read or failed; None when all is well.
        result: what stands in the results, or will; None without a result.
        num_attempts: how often a result was recorded.
        runs: what workers noted about it, oldest first: worker, end (seconds since 1970), seconds, tokens, drafts.
    """

    row: int
    custom_id: str
    range: int
    state: str
    key: str
    num_prompt_tokens: int | None
    prompt: str | None
    params: dict[str, Any]
    error: dict[str, str] | None
    result: dict[str, Any] | None
    num_attempts: int
    runs: list[dict[str, Any]]

    @classmethod
    def read(cls, job: BatchJob, name: str) -> RowStory:
        """The story of a row by its id or number. Raises JobError when there is no such row."""
        reader = job.reader()
        try:
            prepared = job.preparer().prepare(reader.find(name))
        finally:
            reader.close()
        row = prepared.row
        number = row.number // job.manifest.range_rows
        path = job.directory.part(number)
        contents = PartContents.read(path)
        result: dict[str, Any] | None = None
        if row.number in contents.entries:
            with open(path, "rb") as part:
                result = json.loads(contents.entries[row.number].result(part))
            state = "done" if contents.entries[row.number].error is None else "failed"
        else:
            state = "being worked on" if Claim.is_held(job.directory.claim(f"{number:06d}")) else "waiting"
        known = prepared.error is None
        return cls(
            row=row.number,
            custom_id=row.custom_id,
            range=number,
            state=state,
            key=prepared.key,
            num_prompt_tokens=len(prepared.token_ids) if known else None,
            prompt=_text(job, prepared) if known else None,
            params=_changed(prepared),
            error=_error(prepared, result),
            result=result,
            num_attempts=contents.num_attempts.get(row.number, 0),
            runs=sorted(_runs(job, row.number), key=lambda run: run["ended"]),
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return asdict(self)


def _text(job: BatchJob, prepared: PreparedRow) -> str:
    return job.model.tokenizer.decode(prepared.token_ids, skip_special_tokens=False)


def _changed(prepared: PreparedRow) -> dict[str, Any]:
    if prepared.params is None:
        return {}
    values, plain = prepared.params.to_dict(), type(prepared.params)().to_dict()
    return {name: value for name, value in values.items() if value != plain[name]}


def _error(prepared: PreparedRow, result: dict[str, Any] | None) -> dict[str, str] | None:
    if prepared.error is not None:
        return RequestFailure.from_exception(prepared.error).to_dict()
    if result is None:
        return None
    found = result.get("error") or (result.get("response") or {}).get("body", {}).get("error")
    return None if found is None else {"code": found["code"], "message": found["message"]}


def _runs(job: BatchJob, number: int) -> Iterator[dict[str, Any]]:
    wanted = f'{{"row": {number}, '
    for path in sorted(job.directory.timings.glob("*.jsonl")):
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith(wanted) and line.endswith("}\n"):
                    yield {"worker": path.stem, **json.loads(line)}
