"""Ops that remember what they were called with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deepinfer.bench.op_call import OpCall
from deepinfer.ops.contract import Ops


class RecordingOps:
    """Has every op of another backend. One call is kept for each op and each set of shapes.

    Attributes:
        calls: in the order in which they were first made; whoever reads them may clear them.

    Args:
        ops: who computes.
    """

    def __init__(self, ops: Ops) -> None:
        self.calls: dict[tuple[str, str], OpCall] = {}
        self._ops = ops

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = getattr(self._ops, name)

        def recorded(*args: Any, **kwargs: Any) -> Any:
            call = OpCall(name, args, kwargs, function(*args, **kwargs))
            self.calls.setdefault((name, call.shapes), call).count += 1
            return call.result

        return recorded
