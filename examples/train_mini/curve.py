"""The curve of a run: JSON lines, and now and then a printed one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_PRINTED = 5  # every so many lines


class Curve:
    """Appends records to a new file."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", encoding="utf-8")
        self._num_lines = 0

    def add(self, **values: Any) -> None:
        """One record; floats are rounded."""
        line = json.dumps({name: _rounded(value) for name, value in values.items()})
        self._file.write(line + "\n")
        self._file.flush()
        self._num_lines += 1
        if self._num_lines % _PRINTED == 0:
            print(line, flush=True)

    def close(self) -> None:
        self._file.close()


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return round(value, 4) if isinstance(value, float) else value
