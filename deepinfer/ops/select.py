"""Chooses the op backend, once, when a model is loaded."""

from __future__ import annotations

from typing import cast

from deepinfer.errors import ConfigError, UnsupportedFeatureError
from deepinfer.ops import reference
from deepinfer.ops.contract import Ops
from deepinfer.ops.selected_backend import SelectedBackend

__all__ = ["SelectedBackend", "select_backend"]

_NAMES = ("auto", "reference", "cpu", "cuda")


def select_backend(backend: str, device: str) -> SelectedBackend:
    """Pick the ops for a device.

    Args:
        backend: "auto", "reference", "cpu" or "cuda".
        device: torch device, e.g. "cpu" or "cuda:0".

    Returns:
        The backend, why it was picked and why the others were not (`deepinfer env` shows this).

    Raises:
        ConfigError: unknown name.
        UnsupportedFeatureError: a backend was named that this version does not have.
    """
    if backend not in _NAMES:
        raise ConfigError(f"backend = {backend!r}: expected one of {', '.join(_NAMES)}")
    missing = _missing_backends(device)
    if backend in missing:
        raise UnsupportedFeatureError(f"backend = {backend!r}: {missing[backend]}; use backend='reference' or 'auto'")
    reason = "named explicitly" if backend == "reference" else f"the only backend of this version that runs on {device}"
    return SelectedBackend("reference", cast(Ops, reference), reason, missing)


def _missing_backends(device: str) -> dict[str, str]:
    """Why each other backend can not run."""
    on_gpu = device.split(":")[0] == "cuda"
    reasons = {"cpu": "its native C++ kernels do not exist yet", "cuda": "its TileLang kernels do not exist yet"}
    wrong, needed = ("cpu", "a CPU") if on_gpu else ("cuda", "a GPU")
    reasons[wrong] += f", and device = {device!r} is not {needed}"
    return reasons
