"""When each row ran and what it took, apart from the results, which know no clock."""

from __future__ import annotations

import json
import time
from pathlib import Path

from deepinfer.batch.atomic_file import write_error
from deepinfer.batch.row_answer import RowAnswer
from deepinfer.outputs import RequestOutput


class TimingLog:
    """Appends a line a row to a file of one worker; the last line of a killed worker's may be cut off."""

    def __init__(self, path: Path) -> None:
        """Raises JobWriteError."""
        self._path = path
        try:
            self._file = open(path, "ab")  # noqa: SIM115 closed by `close`
        except OSError as error:
            raise write_error(path, error) from error

    def add(self, answer: RowAnswer, output: RequestOutput | None) -> None:
        """Note a row that ended; `output` is None when the engine never had it. Raises JobWriteError."""
        values: dict[str, object] = {
            "row": answer.prepared.row.number,
            "key": answer.prepared.key,
            "ended": time.time(),
        }
        values["error"] = None if answer.failure is None else answer.failure.code
        if output is not None:
            metrics = output.metrics
            begin = metrics.arrival_time or 0.0
            times = (metrics.first_scheduled_time, metrics.first_token_time, metrics.finished_time)
            names = ("scheduled", "first_token", "finished")
            values["seconds"] = {
                name: round(moment - begin, 6) for name, moment in zip(names, times, strict=True) if moment is not None
            }
            values |= {"prompt_tokens": len(output.prompt_token_ids), "cached_tokens": output.num_cached_tokens}
            values["generated_tokens"] = answer.num_generated_tokens
            values["preemptions"] = metrics.num_preemptions
            values["drafts"] = sum(item.num_draft_tokens for item in output.outputs)
            values["accepted_drafts"] = sum(item.num_accepted_tokens for item in output.outputs)
        try:
            self._file.write(json.dumps(values).encode("utf-8") + b"\n")
        except OSError as error:
            raise write_error(self._path, error) from error

    def flush(self) -> None:
        """Hand what was noted to the operating system. Raises JobWriteError."""
        try:
            self._file.flush()
        except OSError as error:
            raise write_error(self._path, error) from error

    def close(self) -> None:
        """Close the file."""
        try:
            self._file.close()
        except OSError as error:
            raise write_error(self._path, error) from error
