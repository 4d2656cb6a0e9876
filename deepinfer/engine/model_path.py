"""Where a model's files are: the bundled checkpoint, a local directory or a snapshot from the hub."""

from __future__ import annotations

import importlib.resources
import os
import re
from pathlib import Path

from deepinfer.errors import CheckpointError
from deepinfer.shown_value import shown_value

_MAX_HUB_ID = 200  # characters; the hub itself allows fewer
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


def bundled_model_path() -> Path:
    """Directory of the bundled mini checkpoint. CheckpointError when the installation lacks it."""
    directory = Path(str(importlib.resources.files("deepinfer") / "data" / "mini"))
    if not (directory / "config.json").is_file():
        raise CheckpointError(
            f"{directory}: the bundled mini checkpoint is missing; reinstall deepinfer or pass model="
        )
    return directory


def resolve_model_path(model: str | None, revision: str | None = None, option: str = "model") -> Path:
    """The local directory (or file) of a model.

    Args:
        model: None: the bundled checkpoint; an existing path; else a hub id, fetched into the hub's cache.
        revision: branch, tag or commit of a hub id.
        option: whose value `model` is, as errors name it.

    Raises CheckpointError that says what was looked for and how to give it.
    """
    if model is None:
        return bundled_model_path()
    path = model if "\0" in model else os.path.expanduser(model)
    if model and os.path.exists(path):  # False as well for a name that no file can have
        return Path(path)
    if len(model) > _MAX_HUB_ID or not _HUB_ID.fullmatch(model):
        raise CheckpointError(
            f"{option}={shown_value(model)}: no such directory, and not a hub id of the form owner/name"
        )
    return _fetch(model, revision, option)


def _fetch(model: str, revision: str | None, option: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise CheckpointError(
            f"{option}={model!r}: no such directory; to fetch it as a hub id, install huggingface_hub"
        ) from error
    try:
        return Path(snapshot_download(model, revision=revision, ignore_patterns=["*.py", "*.bin", "*.pt", "*.pth"]))
    except Exception as error:  # network, authentication, a wrong id or an empty cache while offline
        at = "" if revision is None else f" at revision {revision!r}"
        raise CheckpointError(
            f"{option}={model!r}: no such directory, and the hub gave no snapshot{at}: "
            f"{type(error).__name__}: {error}. "
            "Give a local directory, check the id, or go online once (HF_HUB_OFFLINE unset)"
        ) from error
