"""Measured cost curves on disk, so that the next engine like this one need not measure again."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from deepinfer.config.cost_curves import CostCurves
from deepinfer.config.strict_json import read_json_object, shown_path
from deepinfer.logging import get_logger
from deepinfer.shown_value import shown_value

logger = get_logger(__name__)


class CurveCache:
    """One file a key, written at once or not at all. A problem with a file is a warning: curves can be measured again.

    Args:
        directory: made when something is stored.
        seconds: how long a curve is good.
        now: seconds since 1970.
    """

    def __init__(self, directory: Path, seconds: float, now: Callable[[], float] = time.time) -> None:
        self._directory = directory
        self._seconds = seconds
        self._now = now

    def load(self, key: str) -> CostCurves | None:
        """The curves stored under a key (hexadecimal), unless they are too old or unusable."""
        path = self._path(key)
        try:
            if not path.exists():
                return None
            stored = read_json_object(path)
            curves = CostCurves.parse(stored, "stored curve")
            if stored.get("key") != key:
                raise ValueError(f"it is of key {shown_value(stored.get('key'))}")
            age = self._now() - float(stored["created"])
        except (OSError, KeyError, TypeError, ValueError) as error:
            logger.warning("the cost curve in %s cannot be used (%s); measuring again", shown_path(path), error)
            return None
        if not 0 <= age <= self._seconds:
            logger.info("cost curve %s is %.0f seconds old (good for %.0f)", path, age, self._seconds)
            return None
        return curves

    def store(self, key: str, curves: CostCurves) -> None:
        """Keep curves under a key; an error is only a warning."""
        path = self._path(key)
        content = {"key": key, "created": self._now(), **curves.to_dict()}
        temporary: str | None = None
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(prefix=f".{path.stem}.", suffix=".tmp", dir=self._directory)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(content, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except (OSError, ValueError) as error:  # ValueError: no possible file name
            where = shown_path(path)
            logger.warning("the cost curve cannot be kept in %s (%s); the next engine measures again", where, error)
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)

    def _path(self, key: str) -> Path:
        return self._directory / f"{key}.json"
