"""YaRN parameters of the compressed layers' rotary embedding."""

from __future__ import annotations

from dataclasses import dataclass

from deepinfer.config.field_reader import FieldReader
from deepinfer.config.size_limits import SIZE_LIMITS, check_range
from deepinfer.errors import ConfigError


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """YaRN scaling (spec/model.md 4.2): low frequencies are divided by `factor`, high ones kept, a ramp between.

    Attributes:
        factor: context extension, >= 1.
        beta_fast: rotations over the original context above which a frequency is kept.
        beta_slow: rotations below which it is divided by `factor`; smaller than beta_fast.
        original_max_position_embeddings: trained context length in tokens.
    """

    factor: float
    beta_fast: float
    beta_slow: float
    original_max_position_embeddings: int

    def __post_init__(self) -> None:
        name = "text_config.rope_scaling"
        limit = SIZE_LIMITS["max_position_embeddings"]
        check_range(f"{name}.original_max_position_embeddings", self.original_max_position_embeddings, 1, limit)
        if self.factor < 1:
            raise ConfigError(f"{name}.factor = {self.factor!r}: expected a number >= 1")
        if self.beta_fast <= self.beta_slow:
            raise ConfigError(
                f"{name}.beta_fast = {self.beta_fast!r}: expected more than beta_slow ({self.beta_slow!r})"
            )

    @classmethod
    def from_reader(cls, reader: FieldReader) -> RopeScaling:
        """Parses the ``rope_scaling`` object; only rope_type "yarn" exists."""
        reader.constant("rope_type", "yarn")
        scaling = cls(
            factor=reader.number("factor"),
            beta_fast=reader.number("beta_fast"),
            beta_slow=reader.number("beta_slow"),
            original_max_position_embeddings=reader.integer("original_max_position_embeddings"),
        )
        reader.warn_unknown()
        return scaling
