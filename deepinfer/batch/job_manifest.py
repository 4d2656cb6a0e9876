"""What a job is, as a file: everything that its results depend on, and where it runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import deepinfer
from deepinfer.batch.atomic_file import write_atomically
from deepinfer.batch.column_names import ColumnNames
from deepinfer.batch.input_file import InputFile
from deepinfer.config.strict_json import read_json_object, shown_path
from deepinfer.errors import JobError

FORMAT_VERSION: Final = 1
_OUTSIDE: Final = ("where", "run")  # of the digest: they change no result


@dataclass(frozen=True, slots=True)
class JobManifest:
    """Written once, when a job begins; whoever works on it reads it.

    Attributes:
        deepinfer: version of the library.
        input: format, size and sha256 of the input.
        columns: what its columns mean.
        sampling: every sampling parameter of a row that does not give its own.
        chat: chat options of conversations that do not give their own.
        seed: of the job; a row without an own seed has a hash of it and its id.
        model_name: as results of the OpenAI format name it.
        model: identity of the model's files.
        engine: every engine option that can change a result, batch_invariant (always on) among them.
        token_ids: whether results carry token ids.
        num_rows: of the input.
        range_rows: rows of a range, which one worker takes at a time.
        where: absolute path of the input; model, revision and tokenizer as `LLM` takes them.
        run: engine options that change no result.
    """

    deepinfer: str
    input: InputFile
    columns: ColumnNames
    sampling: Mapping[str, Any]
    chat: Mapping[str, Any]
    seed: int
    model_name: str
    model: Mapping[str, str]
    engine: Mapping[str, Any]
    token_ids: bool
    num_rows: int
    range_rows: int
    where: Mapping[str, Any]
    run: Mapping[str, Any]

    @property
    def num_ranges(self) -> int:
        """Pieces that workers take."""
        return -(-self.num_rows // self.range_rows)

    def rows_of(self, number: int) -> range:
        """Rows of a range."""
        return range(number * self.range_rows, min((number + 1) * self.range_rows, self.num_rows))

    @property
    def input_path(self) -> Path:
        """Of the input."""
        return Path(self.where["input"])

    @property
    def digest(self) -> str:
        """sha256, hexadecimal, of everything that results depend on."""
        return _digest(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        values |= {"input": self.input.to_dict(), "columns": self.columns.to_dict()}
        return {"format_version": FORMAT_VERSION, **_plain(values)}

    def write(self, path: Path) -> None:
        """Write the file; it is there whole or not at all."""
        content = {**self.to_dict(), "digest": self.digest}
        write_atomically(path, json.dumps(content, indent=1, ensure_ascii=False).encode("utf-8") + b"\n")

    @classmethod
    def read(cls, path: Path) -> JobManifest:
        """Read the file. Raises JobError when it is missing, changed by hand, or of another version of the library."""
        if not path.is_file():
            raise JobError(f"{shown_path(path.parent)} holds no job; to begin one: deepinfer batch run IN -o OUT_DIR")
        values = read_json_object(path, JobError)
        if values.pop("format_version", None) != FORMAT_VERSION or values.get("deepinfer") != deepinfer.__version__:
            raise JobError(
                f"{shown_path(path)} was written by deepinfer {values.get('deepinfer')!r}, this is "
                f"{deepinfer.__version__!r}: go on with that version, since another one may give other results"
            )
        digest = values.pop("digest", None)
        if digest != _digest({"format_version": FORMAT_VERSION, **values}):
            raise JobError(f"{shown_path(path)} was changed by hand: put it back, or begin another job")
        values["input"] = InputFile.from_dict(values["input"])
        values["columns"] = ColumnNames.from_dict(values["columns"])
        return cls(**values)

    def require_same(self, other: JobManifest) -> None:
        """Raise JobError, naming the first difference, unless both describe the same results."""
        mine, theirs = self.to_dict(), other.to_dict()
        for name in mine:
            if name not in _OUTSIDE and mine[name] != theirs[name]:
                message = f"another job is in this directory: its {name} is {_shown(mine[name], theirs[name])}"
                raise JobError(f"{message}; resume that one without options, or name a new directory")


def _digest(values: Mapping[str, Any]) -> str:
    inside = {name: value for name, value in values.items() if name not in _OUTSIDE}
    return hashlib.sha256(json.dumps(inside, sort_keys=True, separators=(",", ":")).encode("utf-8")).hexdigest()


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """As it is read back: tuples are lists, and keys texts."""
    plain: dict[str, Any] = json.loads(json.dumps(values, allow_nan=False))
    return plain


def _shown(mine: Any, theirs: Any) -> str:
    """Two values, of objects the entries that differ."""
    if isinstance(mine, dict) and isinstance(theirs, dict):
        names = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
        first = names[0]
        return f"{first} = {mine.get(first)!r:.80}, not {theirs.get(first)!r:.80}"
    return f"{mine!r:.80}, not {theirs!r:.80}"
