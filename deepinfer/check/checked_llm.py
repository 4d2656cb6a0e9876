"""An LLM whose ops compare themselves with the reference."""

from __future__ import annotations

from functools import partial
from os import PathLike
from typing import Any

from deepinfer.check.checked_ops import CheckedOps
from deepinfer.engine.runtime import EngineRuntime
from deepinfer.llm import LLM
from deepinfer.ops.select import select_backend
from deepinfer.ops.selected_backend import SelectedBackend


class CheckedLLM(LLM):
    """Runs any request as an `LLM` does, component by component, and slowly: every op runs twice.

    Attributes:
        checked: what the comparisons found.
        backend: whose ops are judged.
    """

    checked: CheckedOps
    backend: str

    def __init__(self, model: str | PathLike[str] | None = None, **options: Any) -> None:
        """Args: as `LLM`'s. Steps are neither overlapped nor captured, since comparing waits for the device."""
        self._build_runtime = partial(EngineRuntime.build, choose_backend=self._choose)
        super().__init__(model, **(options | {"enforce_eager": True, "overlap": False}))

    def _choose(self, *selection: Any) -> SelectedBackend:
        chosen = select_backend(*selection)
        self.checked, self.backend = CheckedOps(chosen.ops), chosen.name
        # Without its native context a backend has no model of its own: the components call the ops.
        return SelectedBackend(chosen.name, self.checked.ops, chosen.reason, chosen.rejected)
