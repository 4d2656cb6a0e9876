"""A decode step measured on one GPU, which a model of costs has to reproduce."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from deepinfer.config.field_reader import is_finite_number
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.errors import ConfigError
from deepinfer.shown_value import shown_value

Part = Literal["forward", "step", "drafts"]


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
    part: Part
    ms: float

    @classmethod
    def parse(cls, value: Any) -> MeasuredStep:
        """From a JSON object with these fields. ValueError or TypeError for anything else."""
        step = cls(**value)
        sizes = (step.num_seqs, step.context_len)
        if not all(type(size) is int and size > 0 for size in sizes) or not is_finite_number(step.ms) or step.ms <= 0:
            raise ValueError(f"{value!r}: num_seqs and context_len are whole numbers above 0, ms a number above 0")
        if step.part not in get_args(Part) or not isinstance(step.changes, Mapping):
            raise ValueError(f"{value!r}: part is one of {', '.join(get_args(Part))}, changes an object")
        unknown = set(step.changes) - {field.name for field in fields(DeepSeekV41Config)}
        if unknown:
            raise ValueError(f"changes of what no config has: {', '.join(sorted(unknown))}")
        return step

    def config(self, whole: DeepSeekV41Config) -> DeepSeekV41Config:
        """The config of the model that was measured. ConfigError when its parts do not fit each other."""
        changes: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in self.changes.items()
        }
        try:
            return replace(whole, **changes)
        except TypeError as error:
            raise ConfigError(f"steps: {shown_value(changes)} makes no config ({error})") from error
