"""Refuses files that a long command could not read or write at its end, before it begins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from deepinfer.config.strict_json import shown_path
from deepinfer.errors import ConfigError


def require_paths(source: Path | None, target: Path | None, endings: tuple[str, ...] = ()) -> None:
    """Raise ConfigError for a source that is no file, or a target that could not be written.

    Args:
        source, target: None: nothing to check.
        endings: what the target's name may end with; empty: anything.
    """
    if source is not None and not _holds(source.is_file):
        raise ConfigError(f"{shown_path(source)} is no file; expected a text or JSON lines of prompts")
    if target is None:
        return
    if endings and target.suffix not in endings:
        raise ConfigError(f"{shown_path(target)}: expected a name that ends with {', '.join(endings)}")
    if not _holds(target.parent.is_dir):
        raise ConfigError(f"{shown_path(target)} cannot be written: there is no directory {shown_path(target.parent)}")
    if _holds(target.is_dir):
        raise ConfigError(f"{shown_path(target)} cannot be written: it is a directory")


def _holds(test: Callable[[], bool]) -> bool:
    try:
        return test()
    except (OSError, ValueError):  # too long, not to be looked at, or no possible name
        return False
