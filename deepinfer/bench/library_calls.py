"""What torch itself takes for the work of an op, where it has something like it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch

from deepinfer.bench.op_call import OpCall

LibraryCall = tuple[str, Callable[[], object]]


def library_call(call: OpCall) -> LibraryCall | None:
    """(name, what to time) on the operands of a call; None where torch has no such operation.

    The name says what is left out: torch's operations do less.
    """
    make = _CALLS.get(call.name)
    return None if make is None else make(call)


def _rms_norm(call: OpCall) -> LibraryCall:
    x, weight, eps, _ = call.args
    return "rms_norm", lambda: torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)


def _linear(call: OpCall) -> LibraryCall:
    x, weight, _ = call.args
    return "linear, bf16 result", lambda: torch.nn.functional.linear(x, weight)


def _quantized_linear(call: OpCall) -> LibraryCall:
    x, weight = call.args
    codes, one = x.to(torch.float8_e4m3fn), torch.ones((), device=x.device)
    transposed = weight.codes.t()
    return "_scaled_mm, one scale, x in FP8", lambda: torch._scaled_mm(
        codes, transposed, scale_a=one, scale_b=one, out_dtype=torch.bfloat16
    )


def _select_entries(call: OpCall) -> LibraryCall:
    scores = torch.randn(call.args[0].shape[0], call.kwargs["max_visible"], device=call.args[0].device)
    most = min(call.kwargs["topk"], scores.shape[1])
    return "topk of scores", lambda: torch.topk(scores, most, dim=1)


_CALLS: Final[dict[str, Callable[[OpCall], LibraryCall]]] = {
    "rms_norm": _rms_norm,
    "linear": _linear,
    "quantized_linear": _quantized_linear,
    "select_entries": _select_entries,
}
