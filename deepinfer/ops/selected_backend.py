"""The outcome of choosing an op backend."""

from __future__ import annotations

from dataclasses import dataclass

from deepinfer.ops.contract import Ops


@dataclass(frozen=True, slots=True)
class SelectedBackend:
    """Made once at load by `select_backend`.

    Attributes:
        name: "reference", "cpu" or "cuda".
        ops: the backend's module.
        reason: why this one.
        rejected: name of every other backend -> why not.
    """

    name: str
    ops: Ops
    reason: str
    rejected: dict[str, str]
