"""Multiply-adds and bytes of one or many steps, as a value for callers."""

from __future__ import annotations

from dataclasses import dataclass, fields

from deepinfer._C import StepCost


@dataclass(frozen=True, slots=True)
class CostTotals:
    """What steps had to compute and to move by the model's formulas; a backend may do more (padding, recomputation).

    Whole numbers, exact up to 2^53. What each counts is written in csrc/core/step_cost.hpp.

    Attributes:
        fp8, experts, index, bf16, fp32, attention: multiply-adds by operand type: FP8 matrices; FP4 experts; FP4 index
            scores; bf16 matrices; hyper-connections, gates and index head sums in float32; attention proper.
        weight_bytes: parameters, each at most once a step.
        cache_read_bytes, cache_written_bytes: cache entries, each at most once a step and layer.
        activation_bytes: residual streams read and written by every sublayer, and logits.
    """

    fp8: int = 0
    experts: int = 0
    index: int = 0
    bf16: int = 0
    fp32: int = 0
    attention: int = 0
    weight_bytes: int = 0
    cache_read_bytes: int = 0
    cache_written_bytes: int = 0
    activation_bytes: int = 0

    @classmethod
    def of(cls, cost: StepCost) -> CostTotals:
        """The same figures as a Python value."""
        return cls(**{field.name: int(getattr(cost, field.name)) for field in fields(cls)})

    def __add__(self, other: CostTotals) -> CostTotals:
        return CostTotals(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    @property
    def flops(self) -> int:
        """Two for each multiply-add."""
        return 2 * (self.fp8 + self.experts + self.index + self.bf16 + self.fp32 + self.attention)

    @property
    def bytes(self) -> int:
        """Sum of the four classes."""
        return self.weight_bytes + self.cache_read_bytes + self.cache_written_bytes + self.activation_bytes

    @property
    def fp8_equivalent_flops(self) -> int:
        """FLOPs with FP4 products at 1/2, FP8 (experts too) at 1, bf16 at 2, float32 at 4 (spec/engine.md 2.13)."""
        return self.index + 2 * (self.fp8 + self.experts) + 4 * (self.bf16 + self.attention) + 8 * self.fp32
