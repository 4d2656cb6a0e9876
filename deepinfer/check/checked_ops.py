"""Ops that run twice: as a backend's and as the reference's on the same inputs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import torch

from deepinfer.check.deviation import num_differing, relative_error
from deepinfer.check.op_fault import OpFault
from deepinfer.check.op_tolerance import OP_TOLERANCES
from deepinfer.check.result_pairs import Pair, own_caches, result_pairs, written_pairs
from deepinfer.core.sync_guard import allow_device_sync
from deepinfer.ops import reference
from deepinfer.ops.contract import Ops

# The tables are made once, at load; the others are about rows, not values, and write where the next step reads.
_AS_THEY_ARE = ("map_rows", "resolve_rows", "rope_table")


class CheckedOps:
    """Wraps a backend's ops, whose results the model goes on with.

    Attributes:
        ops: for the model, in place of the backend's.
        calls: by op, how many.
        worst: by op, the largest relative error of float results.
        differing: by op, how many integers (choices, cache bytes) of all calls differ, and of how many.
    """

    def __init__(self, ops: Ops) -> None:
        self._faults: dict[str, OpFault] = {}
        self.clear()
        wrapped = {name: self._checked(name, getattr(ops, name)) for name in OP_TOLERANCES if name not in _AS_THEY_ARE}
        as_they_are = {name: getattr(ops, name) for name in _AS_THEY_ARE}
        self.ops = cast(Ops, SimpleNamespace(**wrapped, **as_they_are))

    def clear(self) -> None:
        """Forget everything seen."""
        self.calls: Counter[str] = Counter()
        self.worst: dict[str, float] = defaultdict(float)
        self.differing: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
        self._faults.clear()

    def shares(self) -> dict[str, float]:
        """Of an op's integers, the share that differs."""
        return {name: differ / max(count, 1) for name, (differ, count) in self.differing.items()}

    def faults(self) -> list[OpFault]:
        """The first call of each op that is outside its tolerance, in the order in which they came."""
        return list(self._faults.values())

    def _checked(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        judge = getattr(reference, name)

        @allow_device_sync()  # decode steps are launched where nothing else may wait
        def call(*args: Any, **options: Any) -> Any:
            copies, before = own_caches(args), own_caches(args)
            want = judge(*copies, **options)
            found = function(*args, **options)
            if any(isinstance(arg, torch.Tensor) and arg.is_cuda for arg in args):
                torch.cuda.synchronize()
            pairs = result_pairs(name, (args, options), found, want) + written_pairs(args, copies, before)
            wrong = [what for pair in pairs if (what := self._judge(name, pair)) is not None]
            if wrong and name not in self._faults:
                self._faults[name] = OpFault(name, self.calls.total(), _shapes(args), "; ".join(wrong))
            self.calls[name] += 1
            return found

        return call

    def _judge(self, name: str, pair: Pair) -> str | None:
        """Notes how far one tensor is from the wanted one; what is wrong with it, if anything."""
        found, want = pair
        if found.shape != want.shape or found.dtype != want.dtype:
            return f"{_shapes(pair[:1])} where the reference has {_shapes(pair[1:])}"
        tolerance = OP_TOLERANCES[name]
        if found.is_floating_point():
            error, limit = relative_error(found, want), tolerance.limit(found.dtype)
            self.worst[name] = max(self.worst[name], error)
            is_wrong = not error <= limit
            return f"relative error {error:.2e}, at most {limit:.2e} ({tolerance.reason})" if is_wrong else None
        new_differ, new_count = num_differing(found, want)
        differ, count = self.differing[name][0] + new_differ, self.differing[name][1] + new_count
        self.differing[name] = (differ, count)
        limit = tolerance.max_differing(count)
        is_wrong = new_differ > 0 and differ > limit
        return f"{differ} of {count} integers differ, at most {limit:.0f} ({tolerance.reason})" if is_wrong else None


def _shapes(values: Any) -> str:
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    return " ".join(f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}" for tensor in tensors)
