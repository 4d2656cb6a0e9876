"""Where a model's files are: the bundled checkpoint, a local directory or a snapshot from the hub."""

from __future__ import annotations

import importlib.resources
import re
from pathlib import Path

from deepinfer.errors import CheckpointError

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


def bundled_model_path() -> Path:
    """Directory of the bundled mini checkpoint. CheckpointError when the installation lacks it."""
    directory = Path(str(importlib.resources.files("deepinfer") / "data" / "mini"))
    if not (directory / "config.json").is_file():
        raise CheckpointError(
            f"{directory}: the bundled mini checkpoint is missing; reinstall deepinfer or pass model="
        )
    return directory


def resolve_model_path(model: str | None, revision: str | None = None) -> Path:
    """The local directory (or file) of a model.

    Args:
        model: None: the bundled checkpoint; an existing path; else a hub id, fetched into the hub's cache.
        revision: branch, tag or commit of a hub id.

    Raises CheckpointError that says what was looked for and how to give it.
    """
    if model is None:
        return bundled_model_path()
    path = Path(model).expanduser()
    if model and path.exists():
        return path
    if not _HUB_ID.fullmatch(model):
        raise CheckpointError(f"model={model!r}: no such directory, and not a hub id of the form owner/name")
    return _fetch(model, revision)


def _fetch(model: str, revision: str | None) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise CheckpointError(
            f"model={model!r}: no such directory; to fetch it as a hub id, install huggingface_hub"
        ) from error
    try:
        return Path(snapshot_download(model, revision=revision, ignore_patterns=["*.py", "*.bin", "*.pt", "*.pth"]))
    except Exception as error:  # network, authentication, a wrong id or an empty cache while offline
        at = "" if revision is None else f" at revision {revision!r}"
        raise CheckpointError(
            f"model={model!r}: no such directory, and the hub gave no snapshot{at}: {type(error).__name__}: {error}. "
            "Give a local directory, check the id, or go online once (HF_HUB_OFFLINE unset)"
        ) from error
