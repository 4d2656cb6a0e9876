"""What a draft pass takes on one GPU, from a profile of kernels."""

from __future__ import annotations

from typing import Final

from deepinfer.bench.planner.expert_cost import ExpertCost
from deepinfer.bench.planner.expert_work import ExpertWork
from deepinfer.bench.planner.kernel_profile import KernelProfile
from deepinfer.bench.planner.op_curve import Growth, OpCurve
from deepinfer.bench.planner.step_costs import FP4_BYTES, FP8_BYTES, StepCosts

# What a draft stage calls beside its router and experts: the shapes of a target layer with a window.
_STAGE: Final = {
    ("hc_step", "into a layer"): 1,
    ("hc_step", "from attention to MoE"): 1,
    ("hc_write", "out of a layer"): 1,
    ("rms_norm", "low-rank query"): 1,
    ("apply_rope", "query heads"): 1,
    ("quantized_linear", "query down"): 1,
    ("quantized_linear", "query up"): 1,
    ("quantized_linear", "window vector"): 1,
    ("rotate_grouped_linear", "output down"): 1,
    ("quantized_linear", "output up"): 1,
    ("store_vectors", "window"): 1,
    ("sparse_attention", "window"): 1,
}


class DraftCosts:
    """Microseconds of a draft pass over a block per sequence, and of its sequential head.

    Args:
        target: of the same model, for the ops that both have.
        profile: with times of the draft model's own ops.
    """

    def __init__(self, target: StepCosts, profile: KernelProfile) -> None:
        self._target = target
        self._config = target.config
        self._features = _curve(profile, ("quantized_linear", "draft features"))
        self._router = _curve(profile, ("route", "draft router"))
        self._markov = _curve(profile, ("linear", "draft Markov head"))
        self._experts = ExpertCost(profile.points(("moe", "draft experts")))

    @property
    def num_stages(self) -> int:
        """Layers of the draft model."""
        return self._config.num_nextn_predict_layers

    def dense_us(self, num_seqs: float, context_len: int) -> float:
        """All but the experts.

        Args:
            num_seqs: sequences.
            context_len: tokens before the drafts.
        """
        drafts = self._config.dspark_block_size
        rows = num_seqs * drafts
        stage = sum(count * self._target.call_us(key, rows, context_len) for key, count in _STAGE.items())
        stage += self._router.us(rows)
        ends = self._features.us(num_seqs * (drafts + 1)) + self._target.head_us(rows)
        return self.num_stages * stage + ends + drafts * self._markov.us(num_seqs)

    def experts_us(self, work: ExpertWork) -> float:
        """Experts of one stage."""
        weights = 3 * self._config.hidden_size * self._config.moe_intermediate_size
        num_bytes = weights * (work.awake * FP4_BYTES + (FP8_BYTES if work.rows else 0.0))
        return self._experts.us(num_bytes, weights * (work.pairs + work.rows))


def _curve(profile: KernelProfile, key: tuple[str, str]) -> OpCurve:
    return OpCurve([(point.rows, point.us) for point in profile.points(key)], Growth.WEIGHTS)
