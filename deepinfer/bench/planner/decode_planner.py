"""Predicts decoding with experts spread over GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from deepinfer.bench.planner.calibration import Calibration
from deepinfer.bench.planner.draft_costs import DraftCosts
from deepinfer.bench.planner.expert_spread import (
    awake_experts,
    chance_peak_to_mean,
    peak_to_mean_of_random_router,
    work_of_random_router,
)
from deepinfer.bench.planner.expert_work import ExpertWork
from deepinfer.bench.planner.plan_options import PlanOptions
from deepinfer.bench.planner.plan_point import PlanPoint
from deepinfer.bench.planner.rank_memory import RankMemory
from deepinfer.bench.planner.step_costs import StepCosts
from deepinfer.distributed.expert_placement import ExpertPlacement

_DISPATCH_BYTES: Final = 1 + 1 / 32  # of a value: FP8 and its scales
_COMBINE_BYTES: Final = 2


@dataclass(frozen=True, slots=True)
class _Moe:
    """A kind of expert layer: routed experts, experts a token chooses, layers."""

    num_experts: int
    top_k: int
    num_layers: int


@dataclass(frozen=True, slots=True)
class _Parts:
    """Microseconds of one batch through all layers of a kind."""

    dense: float
    experts: float
    exchange: float


class DecodePlanner:
    """A step of a rank: every rank has as many sequences, attention is local to it, and in each layer all ranks wait
    for the fullest one. `doc/wide_ep.md` states what is assumed.

    Args:
        costs: of the target model.
        drafts: of the draft model; None where the model has none.
        calibration: factors on both.
        memory: of the same model.
        options: what is asked for.
    """

    def __init__(
        self,
        costs: StepCosts,
        drafts: DraftCosts | None,
        calibration: Calibration,
        memory: RankMemory,
        options: PlanOptions,
    ) -> None:
        self._costs = costs
        self._drafts = drafts
        self._calibration = calibration
        self._memory = memory
        self._options = options
        config = costs.config
        self._target_moe = _Moe(config.n_routed_experts, config.num_experts_per_tok, config.num_hidden_layers)
        self._draft_moe = _Moe(
            config.dspark_n_routed_experts, config.dspark_num_experts_per_tok, config.num_nextn_predict_layers
        )

    def widths(self) -> list[int]:
        """Divisors of the number of GPUs at which at least one sequence fits, ascending."""
        total = self._options.num_gpus
        return [width for width in range(1, total + 1) if total % width == 0 and self.max_seqs(width)]

    def max_seqs(self, width: int) -> int:
        """Sequences that a GPU may have: those that fit, at most as many as the options say."""
        options = self._options
        return min(options.max_seqs, self._memory.max_seqs(width, options.min_extra, options.context_len))

    def curve(self, width: int) -> list[PlanPoint]:
        """From one sequence on a GPU to as many as it may have, in steps of an eighth."""
        most, num_seqs, points = self.max_seqs(width), 1, []
        while num_seqs < most:
            points.append(self.point(width, num_seqs))
            num_seqs += max(1, num_seqs // 8)
        return [*points, self.point(width, most)]

    def point(self, width: int, num_seqs: int) -> PlanPoint:
        """One width and number of sequences on each GPU."""
        whole, lockstep = self._step(width, num_seqs), self._calibration.lockstep
        host = 0.0 if lockstep is None else lockstep.host_us(num_seqs, width)
        one = sum((whole.dense, whole.experts, whole.exchange, host))
        step, parts, two = one, whole, False
        if self._options.may_split and num_seqs > 1 and width > 1 and lockstep is None:
            half = self._step(width, num_seqs / 2)
            work = half.dense + half.experts
            both = 2 * max(work, half.exchange) + min(work, half.exchange) / self._target_moe.num_layers
            if both < one:
                step, two = both, True
                parts = _Parts(2 * half.dense, 2 * half.experts, 2 * half.exchange)
        per_user = self._options.tokens_per_step / step * 1e6
        return PlanPoint(
            width=width,
            num_seqs=num_seqs,
            step_ms=step / 1e3,
            dense_ms=parts.dense / 1e3,
            expert_ms=parts.experts / 1e3,
            exchange_ms=parts.exchange / 1e3,
            host_ms=host / 1e3,
            two_batches=two,
            tokens_per_s_per_user=per_user,
            tokens_per_s_per_gpu=per_user * num_seqs,
        )

    def _step(self, width: int, num_seqs: float) -> _Parts:
        """Of one batch: the target model's pass, and with drafts the draft model's."""
        options = self._options
        rows = num_seqs * (1 + options.num_drafts)
        dense = self._calibration.dense_factor * self._costs.dense_us(rows, options.context_len)
        dense += self._costs.head_us(rows)
        work = self._work(self._target_moe, width, rows)
        experts = self._target_moe.num_layers * self._costs.experts_us(work)
        exchange = self._exchange_us(self._target_moe, width, rows)
        if options.num_drafts and self._drafts is not None:
            draft_rows = num_seqs * self._costs.config.dspark_block_size
            dense += self._calibration.dense_factor * self._drafts.dense_us(num_seqs, options.context_len)
            draft_work = self._work(self._draft_moe, width, draft_rows)
            experts += self._draft_moe.num_layers * self._drafts.experts_us(draft_work)
            exchange += self._exchange_us(self._draft_moe, width, draft_rows)
        return _Parts(dense, self._calibration.expert_factor_at(rows, width) * experts, exchange)

    def _work(self, moe: _Moe, width: int, rows: float) -> ExpertWork:
        """Of the fullest rank, where every rank has `rows` tokens."""
        if self._options.random_router:
            return work_of_random_router(moe.num_experts, moe.top_k, max(1, round(rows)), width)
        places = ExpertPlacement.round_up(moe.num_experts, self._options.min_extra if width > 1 else 0, width)
        awake = awake_experts(places / width, rows * width, moe.top_k / places)
        return ExpertWork(awake, rows * moe.top_k * self._peak(moe, width, rows), rows)

    def _exchange_us(self, moe: _Moe, width: int, rows: float) -> float:
        """Dispatch and combine of all layers, for the rank that gets the most; as ranks measured, if they did."""
        lockstep, hidden_size = self._calibration.lockstep, self._costs.config.hidden_size
        if lockstep is not None:
            return moe.num_layers * lockstep.exchange_us(rows, moe.top_k, hidden_size, width)
        values = rows * moe.top_k * hidden_size * self._peak(moe, width, rows)
        sizes = (values * _DISPATCH_BYTES, values * _COMBINE_BYTES)
        return moe.num_layers * sum(self._options.links.all_to_all_us(size, width) for size in sizes)

    def _peak(self, moe: _Moe, width: int, rows: float) -> float:
        """Peak to mean of the ranks' tokens."""
        if width == 1:
            return 1.0
        if self._options.random_router:
            return peak_to_mean_of_random_router(moe.num_experts, moe.top_k, max(1, round(rows * width)), width)
        return min(width, self._options.imbalance * chance_peak_to_mean(rows * moe.top_k, width))
