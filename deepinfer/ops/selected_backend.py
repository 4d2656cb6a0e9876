"""The outcome of choosing an op backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deepinfer.ops.contract import Ops

if TYPE_CHECKING:
    from deepinfer._C import cpu


@dataclass(frozen=True, slots=True)
class SelectedBackend:
    """Made once at load by `select_backend`.

    Attributes:
        name: "reference", "cpu" or "cuda".
        ops: the backend's ops.
        reason: why this one.
        rejected: name of every other backend -> why not.
        context: threads and kernels of native code, for a backend that offers the whole model as native calls too.
    """

    name: str
    ops: Ops
    reason: str
    rejected: dict[str, str]
    context: cpu.Context | None = None
