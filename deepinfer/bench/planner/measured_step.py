"""A decode step measured on one GPU, which a model of costs has to reproduce."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from deepinfer.config.model_config import DeepSeekV41Config


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """Of a model with random weights (``load_format="dummy"``).

    Attributes:
        changes: what differs from the config that the ops were measured for: fewer layers.
        num_seqs: sequences.
        context_len: tokens before a row.
        part: "forward" (the layers alone), "step" (with the head and sampling) or "drafts" (all drafts verified, and a
            draft pass).
        ms: milliseconds.
    """

    changes: Mapping[str, Any]
    num_seqs: int
    context_len: int
    part: Literal["forward", "step", "drafts"]
    ms: float

    def config(self, whole: DeepSeekV41Config) -> DeepSeekV41Config:
        """The config of the model that was measured."""
        changes: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in self.changes.items()
        }
        return replace(whole, **changes)
