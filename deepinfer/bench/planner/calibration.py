"""Fits the model of costs to measured steps of one GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from deepinfer.bench.planner.draft_costs import DraftCosts
from deepinfer.bench.planner.expert_spread import work_of_random_router
from deepinfer.bench.planner.kernel_profile import KernelProfile
from deepinfer.bench.planner.lockstep_costs import LockstepCosts
from deepinfer.bench.planner.measured_step import MeasuredStep
from deepinfer.bench.planner.step_check import StepCheck
from deepinfer.bench.planner.step_costs import StepCosts
from deepinfer.config.model_config import DeepSeekV41Config

Anchors = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Calibration:
    """How much longer ops take in a step than alone: gaps between kernels, and small operations that no bench has.

    Attributes:
        dense_factor: of everything but experts.
        expert_factor: of experts.
        checks: every measured step.
        anchors: (rows, factor of experts), ascending, with which whole steps come out as measured; none where the
            profile has no ranks.
        lockstep: what ranks measured; None without.
        rank_anchors: by number of ranks that share experts, the same with which a rank's share comes out as measured.
    """

    dense_factor: float = 1.0
    expert_factor: float = 1.0
    checks: tuple[StepCheck, ...] = ()
    anchors: Anchors = ()
    lockstep: LockstepCosts | None = None
    rank_anchors: Mapping[int, Anchors] = field(default_factory=dict)

    @classmethod
    def fit(cls, config: DeepSeekV41Config, profile: KernelProfile) -> Calibration:
        """Least relative squares over the profile's steps without drafts; with fewer than two of them no factors.

        Steps with drafts are checked only. Where ranks have measured the profile's steps and exchange, whole steps are
        taken at their word: the factor of experts follows the number of sequences.
        """
        parts = np.array([_parts_ms(config, profile, step) for step in profile.steps]).reshape(-1, 3)
        times = np.array([step.ms for step in profile.steps])
        plain = np.array([step.part != "drafts" for step in profile.steps], bool)
        factors = _factors(parts[plain], times[plain])
        seqs = np.array([step.num_seqs for step in profile.steps])
        whole = np.array([step.part == "step" for step in profile.steps], bool) & (profile.lockstep is not None)
        anchors = _anchors(parts[whole], times[whole], seqs[whole], factors[0])
        checks = []
        for number, step in enumerate(profile.steps):
            others = plain & (np.arange(len(times)) != number)
            fitted, unseen = [*factors], [*_factors(parts[others], times[others])]
            if whole[number]:
                left = whole & others
                fitted[1] = _factor_at(anchors, step.num_seqs, factors[1])
                unseen[1] = _factor_at(
                    _anchors(parts[left], times[left], seqs[left], unseen[0]), step.num_seqs, unseen[1]
                )
            checks.append(StepCheck(step, *(float(parts[number] @ (*pair, 1.0)) for pair in (fitted, unseen))))
        return cls(*factors, tuple(checks), anchors, profile.lockstep, _rank_anchors(config, profile))

    def expert_factor_at(self, num_rows: float, num_ranks: int) -> float:
        """Of steps with so many rows on a rank: in straight lines over the logarithm of their number. Where no such
        share was measured, the factor of all experts on one rank.
        """
        return _factor_at(self.rank_anchors.get(num_ranks, self.anchors), num_rows, self.expert_factor)

    @property
    def worst_error(self) -> float:
        """Largest relative error, either way, of a step without drafts."""
        return max((abs(check.error) for check in self.checks if check.step.part != "drafts"), default=0.0)


def _anchors(parts: np.ndarray, times: np.ndarray, seqs: np.ndarray, dense_factor: float) -> Anchors:
    """What is left of each step's time for experts, over what the profile says of them."""
    found = (times - parts @ (dense_factor, 0.0, 1.0)) / parts[:, 1]
    return tuple(sorted(zip(seqs.tolist(), found.tolist(), strict=True)))


def _rank_anchors(config: DeepSeekV41Config, profile: KernelProfile) -> dict[int, Anchors]:
    """A rank's share in a layer's experts as measured, over what the profile says of it."""
    found: dict[int, Anchors] = {}
    if profile.lockstep is None or not profile.lockstep.experts:
        return found
    costs = StepCosts(config, profile)
    for num_ranks, num_seqs, us in profile.lockstep.experts:
        work = work_of_random_router(config.n_routed_experts, config.num_experts_per_tok, num_seqs, num_ranks)
        found[num_ranks] = (*found.get(num_ranks, ()), (float(num_seqs), us / costs.experts_us(work)))
    return found


def _factor_at(anchors: Anchors, num_seqs: float, without: float) -> float:
    if not anchors:
        return without
    seqs, found = zip(*anchors, strict=True)
    return float(np.interp(np.log(num_seqs), np.log(seqs), found))


def _parts_ms(config: DeepSeekV41Config, profile: KernelProfile, step: MeasuredStep) -> tuple[float, float, float]:
    """Milliseconds by the profile alone: dense ops, experts, head."""
    costs = StepCosts(step.config(config), profile)
    model = costs.config
    drafts = model.dspark_block_size if step.part == "drafts" else 0
    rows = step.num_seqs * (1 + drafts)
    dense = costs.dense_us(rows, step.context_len)
    work = work_of_random_router(model.n_routed_experts, model.num_experts_per_tok, rows)
    experts = model.num_hidden_layers * costs.experts_us(work)
    head = costs.head_us(rows) if step.part != "forward" else 0.0
    if drafts:
        passes = DraftCosts(costs, profile)
        picks = model.dspark_n_routed_experts, model.dspark_num_experts_per_tok
        work = work_of_random_router(*picks, step.num_seqs * drafts)
        dense += passes.dense_us(step.num_seqs, step.context_len)
        experts += passes.num_stages * passes.experts_us(work)
    return dense / 1e3, experts / 1e3, head / 1e3


def _factors(parts: np.ndarray, times: Sequence[float] | np.ndarray) -> tuple[float, float]:
    if len(parts) < 2:
        return 1.0, 1.0
    relative = parts / np.asarray(times)[:, None]
    found = np.linalg.lstsq(relative[:, :2], 1 - relative[:, 2], rcond=None)[0]
    return float(found[0]), float(found[1])
