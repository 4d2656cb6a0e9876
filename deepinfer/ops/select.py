"""Chooses the op backend, once, when a model is loaded."""

from __future__ import annotations

from typing import cast

from deepinfer._C import cpu
from deepinfer.config.numerics import Numerics
from deepinfer.errors import ConfigError, UnsupportedFeatureError
from deepinfer.ops import reference
from deepinfer.ops.contract import Ops
from deepinfer.ops.cpu.cpu_ops import cpu_ops
from deepinfer.ops.cuda.availability import cuda_unavailable
from deepinfer.ops.selected_backend import SelectedBackend

__all__ = ["SelectedBackend", "select_backend"]

_NAMES = ("auto", "reference", "cpu", "cuda")
_NAMED = "named explicitly"
_SLOWER = "the same operations without kernels of their own: slower"


def select_backend(
    backend: str,
    device: str,
    num_threads: int = 1,
    cpu_isa: str = "auto",
    numerics: Numerics = Numerics.OFFICIAL,
    batch_invariant: bool | None = None,
) -> SelectedBackend:
    """Pick the ops for a device.

    "auto" is cuda where `device` is, or may be, a GPU that has kernels, else cpu; on a CPU with `numerics` FP32_QUANT
    it is the reference: that mode is there to compare values with those of others, and one value on a rounding edge,
    moved by another order of summation, spreads over a window of positions.

    Args:
        backend: "auto", "reference", "cpu" or "cuda".
        device: "auto" or a torch device, e.g. "cpu" or "cuda:0".
        num_threads: of native CPU code.
        cpu_isa: instruction set of native CPU code: "auto", "scalar", "avx2", "avx512" or "avx512_bf16".
        numerics: mode of the engine.
        batch_invariant: of the engine; None is the backend's default.

    Returns:
        The backend, why it was picked and why the others were not (`deepinfer env` shows this).

    Raises:
        ConfigError: unknown name, or an instruction set that this machine does not have.
        UnsupportedFeatureError: a backend was named that cannot run here.
    """
    if backend not in _NAMES:
        raise ConfigError(f"backend = {backend!r}: expected one of {', '.join(_NAMES)}")
    missing = _missing_backends(device)
    if backend in missing:
        raise UnsupportedFeatureError(f"backend = {backend!r}: {missing[backend]}; use backend='reference' or 'auto'")
    if backend == "cuda" or (backend == "auto" and "cuda" not in missing):
        reason = _NAMED if backend == "cuda" else "a GPU that has kernels is here"
        rejected = {"cpu": missing.get("cpu", reason), "reference": _SLOWER}
        return SelectedBackend("cuda", _cuda_ops(bool(batch_invariant)), reason, rejected)
    compares = backend == "auto" and numerics is Numerics.FP32_QUANT
    if backend == "reference" or "cpu" in missing or compares:
        reason = _reference_reason(backend, device, missing)
        return SelectedBackend("reference", cast(Ops, reference), reason, {"cpu": reason, "cuda": reason} | missing)
    context = _context(num_threads, cpu_isa)
    reason = _NAMED
    if backend == "auto":
        reason = f"the fastest backend of this version that runs on a CPU ({context.isa} kernels)"
    rejected = {"cuda": reason, **missing, "reference": _SLOWER}
    return SelectedBackend("cpu", cpu_ops(context), reason, rejected, context)


def _reference_reason(backend: str, device: str, missing: dict[str, str]) -> str:
    if backend == "reference":
        return _NAMED
    if "cpu" in missing:
        return f"the only backend that runs on {device}"
    return "numerics = 'fp32-quant' compares values with the reference's"


def _cuda_ops(batch_invariant: bool) -> Ops:
    # Not among the imports above: without a GPU neither tilelang nor its kernels are loaded.
    from deepinfer.ops.cuda.cuda_ops import cuda_ops

    return cuda_ops(batch_invariant)


def _context(num_threads: int, cpu_isa: str) -> cpu.Context:
    try:
        return cpu.Context(num_threads, cpu_isa)
    except ValueError as error:
        raise ConfigError(f"cpu_isa = {cpu_isa!r}, num_threads = {num_threads}: {error}") from None


def _missing_backends(device: str) -> dict[str, str]:
    """Why each backend that cannot run cannot run."""
    missing = {}
    if device.split(":")[0] == "cuda":
        missing["cpu"] = f"device = {device!r} is not a CPU"
    unavailable = cuda_unavailable(device)
    if unavailable is not None:
        missing["cuda"] = unavailable
    return missing
