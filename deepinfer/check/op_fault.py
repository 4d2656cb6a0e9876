"""An op whose result is outside its tolerance."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class OpFault:
    """The first such call of one op.

    Attributes:
        op: name in the op contract.
        call: running number among the calls of all ops, from 0.
        shapes: of the call's tensors, e.g. "bfloat16[7, 256] float32[256]".
        what: what differs, by how much, and what is allowed.
    """

    op: str
    call: int
    shapes: str
    what: str

    def __str__(self) -> str:
        return f"{self.op} (call {self.call}, {self.shapes}): {self.what}"

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return asdict(self)
