"""Which torch operations run outside the ops of the contract: on a GPU each of them is a launch."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from torch.utils._python_dispatch import TorchDispatchMode

from deepinfer.ops import Ops

# Views, conversions to what a tensor is already, and memory that nobody fills.
_FREE = {"alias", "detach", "empty", "expand", "flatten", "select", "slice", "split_with_sizes", "to", "unbind"}
_FREE |= {"unsqueeze", "view"}


class OutsideOps(TorchDispatchMode):
    """While active, lists in `names` what runs outside `ops`.

    Args:
        ops: of a backend.

    Attributes:
        ops: the same ops; what runs inside them is not listed.
        names: of torch operations, in order.
    """

    def __init__(self, ops: Ops) -> None:
        super().__init__()
        names = [name for name in vars(Ops) if not name.startswith("_")]
        self.ops = cast(Ops, SimpleNamespace(**{name: self._inside(getattr(ops, name)) for name in names}))
        self.names: list[str] = []
        self._depth = 0

    def _inside(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            self._depth += 1
            try:
                return function(*args, **options)
            finally:
                self._depth -= 1

        return call

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.__name__.split(".")[0]
        if not self._depth and name not in _FREE:
            self.names.append(name)
        return func(*args, **(kwargs or {}))
