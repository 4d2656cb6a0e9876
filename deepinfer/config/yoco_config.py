"""Options of YOCO prefill: which prompt tokens go through the consumer layers, from the first ratio-1 layer on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deepinfer.config.field_error import field_error
from deepinfer.config.size_limits import MAX_STEP_TOKENS, check_range
from deepinfer.errors import ConfigError

if TYPE_CHECKING:
    from deepinfer.config.model_config import DeepSeekV41Config

MODES = ("off", "mask", "compact")
_FORMS = '"off", "mask", "compact" or {"mode": ..., "keep_tokens": ...}'


@dataclass(frozen=True, slots=True)
class YocoConfig:
    """YOCO group of EngineConfig (spec/model.md 11); made by `parse`, made definite by `resolve`.

    Attributes:
        mode: "off": exact, every token goes through every layer; "compact": only the last `keep_tokens` tokens of a
            prompt go through the consumer layers; "mask": all tokens do, but the windows of consumer layers end where
            compact's do, so that kept rows have the same bits (for checking compact).
        keep_tokens: tokens of a prompt that are kept; None or 0: the least that is possible.
    """

    mode: str = "off"
    keep_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise field_error("yoco.mode", self.mode, f"one of {', '.join(MODES)}")
        check_range("yoco.keep_tokens", self.keep_tokens, 0, MAX_STEP_TOKENS, optional=True)

    @classmethod
    def parse(cls, value: Any) -> YocoConfig:
        """From None, a mode, or a mapping of the fields."""
        if value is None:
            return cls()
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return cls(value)
        if not isinstance(value, Mapping):
            raise field_error("yoco", value, _FORMS)
        unknown = [name for name in value if name not in ("mode", "keep_tokens")]
        if unknown:
            raise ConfigError(f"yoco: unknown option {unknown[0]!r}; expected {_FORMS}")
        return cls(**value)

    @property
    def is_off(self) -> bool:
        """Whether every token goes through every layer."""
        return self.mode == "off"

    @property
    def num_kept(self) -> int:
        """What the scheduler is told: tokens of a prompt that are kept; 0: all of them."""
        return 0 if self.is_off else self.keep_tokens or 0

    def resolve(self, model: DeepSeekV41Config, num_drafts: int) -> YocoConfig:
        """The same options with a definite number of kept tokens.

        Decoding looks back one window, and with drafts as far again as a step may be wrong; all of that has to be kept.
        Raises ConfigError for fewer tokens, and for a model whose layers do not allow it.
        """
        if self.is_off:
            return YocoConfig()
        _check_layers(self.mode, model, num_drafts)
        minimum = model.sliding_window + (num_drafts + 1 if num_drafts else 0)
        keep = self.keep_tokens or minimum
        if keep < minimum:
            parts = f"the sliding window, {model.sliding_window}"
            if num_drafts:
                parts += f", and {num_drafts} drafts + 1"
            raise field_error("yoco.keep_tokens", keep, f"at least {minimum} ({parts})")
        return YocoConfig(self.mode, keep)


def _check_layers(mode: str, model: DeepSeekV41Config, num_drafts: int) -> None:
    boundary = model.n_prefill_layer
    if boundary is None:
        raise field_error("yoco.mode", mode, "off: this model has no layer with compression ratio 1, so no consumers")
    behind = [layer for layer in range(boundary, model.num_hidden_layers) if model.compress_ratios[layer] != 1]
    if behind:
        expectation = f"off: layer {behind[0]} has another ratio than 1 behind the first ratio-1 layer {boundary}"
        raise field_error("yoco.mode", mode, expectation)
    targets = model.dspark_target_layer_ids
    if num_drafts and min(targets) < boundary <= max(targets):
        expectation = (
            f'off, or speculative="off": the draft model reads layers {list(targets)}, which lie on both sides of '
            f"layer {boundary}"
        )
        raise field_error("yoco.mode", mode, expectation)
