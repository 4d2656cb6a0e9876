"""Chooses the op backend, once, when a model is loaded."""

from __future__ import annotations

from typing import cast

from deepinfer._C import cpu
from deepinfer.config.numerics import Numerics
from deepinfer.errors import ConfigError, UnsupportedFeatureError
from deepinfer.ops import reference
from deepinfer.ops.contract import Ops
from deepinfer.ops.cpu.cpu_ops import cpu_ops
from deepinfer.ops.selected_backend import SelectedBackend

__all__ = ["SelectedBackend", "select_backend"]

_NAMES = ("auto", "reference", "cpu", "cuda")
_REFERENCE_NAMED = "backend = 'reference' was named"


def select_backend(
    backend: str, device: str, num_threads: int = 1, cpu_isa: str = "auto", numerics: Numerics = Numerics.OFFICIAL
) -> SelectedBackend:
    """Pick the ops for a device.

    With `numerics` FP32_QUANT "auto" is the reference: that mode is there to compare values with those of others,
    and one value on a rounding edge, moved by another order of summation, spreads over a window of positions.

    Args:
        backend: "auto", "reference", "cpu" or "cuda".
        device: "auto" or a torch device, e.g. "cpu" or "cuda:0".
        num_threads: of native CPU code.
        cpu_isa: instruction set of native CPU code: "auto", "scalar", "avx2" or "avx512".
        numerics: mode of the engine.

    Returns:
        The backend, why it was picked and why the others were not (`deepinfer env` shows this).

    Raises:
        ConfigError: unknown name, or an instruction set that this machine does not have.
        UnsupportedFeatureError: a backend was named that this version does not have.
    """
    if backend not in _NAMES:
        raise ConfigError(f"backend = {backend!r}: expected one of {', '.join(_NAMES)}")
    missing = _missing_backends(device)
    if backend in missing:
        raise UnsupportedFeatureError(f"backend = {backend!r}: {missing[backend]}; use backend='reference' or 'auto'")
    reason = "named explicitly"
    compares = backend == "auto" and numerics is Numerics.FP32_QUANT
    if backend == "reference" or "cpu" in missing or compares:
        if backend == "auto":
            runs_only = f"the only backend of this version that runs on {device}"
            reason = runs_only if "cpu" in missing else "numerics = 'fp32-quant' compares values with the reference's"
        rejected = missing if "cpu" in missing else {**missing, "cpu": reason if compares else _REFERENCE_NAMED}
        return SelectedBackend("reference", cast(Ops, reference), reason, rejected)
    context = _context(num_threads, cpu_isa)
    if backend == "auto":
        reason = f"the fastest backend of this version that runs on a CPU ({context.isa} kernels)"
    rejected = {**missing, "reference": "the same operations without native kernels: slower"}
    return SelectedBackend("cpu", cpu_ops(context), reason, rejected, context)


def _context(num_threads: int, cpu_isa: str) -> cpu.Context:
    try:
        return cpu.Context(num_threads, cpu_isa)
    except ValueError as error:
        raise ConfigError(f"cpu_isa = {cpu_isa!r}, num_threads = {num_threads}: {error}") from None


def _missing_backends(device: str) -> dict[str, str]:
    """Why each backend that cannot run cannot run."""
    if device.split(":")[0] == "cuda":
        return {
            "cpu": f"device = {device!r} is not a CPU",
            "cuda": "its TileLang kernels do not exist yet",
        }
    return {"cuda": f"its TileLang kernels do not exist yet, and device = {device!r} is not a GPU"}
