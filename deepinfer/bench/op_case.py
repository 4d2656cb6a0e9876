"""One use of an op in a model, with what makes its operands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

Operands: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]  # args, kwargs


@dataclass(frozen=True, slots=True)
class OpCase:
    """An op at the shapes of one of its uses.

    Attributes:
        op: name in the contract.
        use: what the model does with it.
        count: calls in a forward pass of the target model; of the draft model, where `use` begins with "draft".
        prepare: makes what all calls share (large tables, caches), and gives what makes the operands of one call
            of a number of rows; every call of that makes new ones.
        is_cold: reads weights, tables or caches that other layers' have driven out of the processor's cache when
            it runs in a model. The other ops read what the op before them wrote.
        function: what runs, for work that is no op of the contract.
    """

    op: str
    use: str
    count: int
    prepare: Callable[[], Callable[[int], Operands]]
    is_cold: bool
    function: Callable[..., Any] | None = None
