"""What a draft pass takes on one GPU, from a profile of kernels."""

from __future__ import annotations

from deepinfer.bench.planner.expert_cost import ExpertCost
from deepinfer.bench.planner.expert_work import ExpertWork
from deepinfer.bench.planner.kernel_profile import KernelProfile
from deepinfer.bench.planner.op_curve import Growth, OpCurve
from deepinfer.bench.planner.step_costs import FP4_BYTES, FP8_BYTES, StepCosts
from deepinfer.bench.step_calls import STAGE_CALLS


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
        stage = sum(count * self._target.call_us(key, rows, context_len) for key, count in STAGE_CALLS.items())
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
