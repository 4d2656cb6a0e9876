"""Reads a JSON object from a config file, with errors that name the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from deepinfer.errors import ConfigError


def read_config_file(path: str | Path) -> dict[str, Any]:
    """The object in `path`, or in ``path/config.json`` when `path` is a directory.

    Raises ConfigError for an absent or unreadable file, text that is not UTF-8 JSON, or a key given twice.
    """
    file = Path(path)
    if file.is_dir():
        file = file / "config.json"
    try:
        text = file.read_bytes().decode("utf-8")
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read ({error.strerror}); a model needs a config.json") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: not UTF-8 text ({error})") from error
    try:
        values = json.loads(text, object_pairs_hook=_unique_keys)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ConfigError(f"{file}: not valid JSON ({error})") from error
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{file}: expected a JSON object, found {type(values).__name__}")
    return values


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise ConfigError(f"key {key!r} is given twice")
        values[key] = value
    return values
