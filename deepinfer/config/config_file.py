"""Finds and reads config.json."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from deepinfer.config.strict_json import read_json_object, shown_path
from deepinfer.errors import ConfigError


def read_config_file(path: str | Path) -> dict[str, Any]:
    """The object in `path`, or in ``path/config.json`` when `path` is a directory.

    Raises ConfigError for an absent or unreadable file, and for what `read_json_object` does not take.
    """
    file = Path(path)
    if os.path.isdir(file):
        file = file / "config.json"
    if not os.path.exists(file):
        raise ConfigError(f"{shown_path(file)}: cannot be read (no such file); a model needs a config.json")
    return read_json_object(file, ConfigError)
