"""Fits the model of costs to measured steps of one GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deepinfer.bench.planner.draft_costs import DraftCosts
from deepinfer.bench.planner.expert_spread import awake_experts_of_random_router
from deepinfer.bench.planner.expert_work import ExpertWork
from deepinfer.bench.planner.kernel_profile import KernelProfile
from deepinfer.bench.planner.measured_step import MeasuredStep
from deepinfer.bench.planner.step_check import StepCheck
from deepinfer.bench.planner.step_costs import StepCosts
from deepinfer.config.model_config import DeepSeekV41Config


@dataclass(frozen=True, slots=True)
class Calibration:
    """How much longer ops take in a step than alone: gaps between kernels, and small operations that no bench has.

    Attributes:
        dense_factor: of everything but experts.
        expert_factor: of experts.
        checks: every measured step.
    """

    dense_factor: float = 1.0
    expert_factor: float = 1.0
    checks: tuple[StepCheck, ...] = ()

    @classmethod
    def fit(cls, config: DeepSeekV41Config, profile: KernelProfile) -> Calibration:
        """Least relative squares over the profile's steps without drafts; with fewer than two of them no factors.

        Steps with drafts are checked only.
        """
        parts = np.array([_parts_ms(config, profile, step) for step in profile.steps]).reshape(-1, 3)
        times = np.array([step.ms for step in profile.steps])
        plain = np.array([step.part != "drafts" for step in profile.steps], bool)
        factors = _factors(parts[plain], times[plain])
        checks = []
        for number, step in enumerate(profile.steps):
            others = plain & (np.arange(len(times)) != number)
            unseen = _factors(parts[others], times[others])
            checks.append(StepCheck(step, *(float(parts[number] @ (*pair, 1.0)) for pair in (factors, unseen))))
        return cls(*factors, tuple(checks))

    @property
    def worst_error(self) -> float:
        """Largest relative error, either way, of a step without drafts."""
        return max((abs(check.error) for check in self.checks if check.step.part != "drafts"), default=0.0)


def _parts_ms(config: DeepSeekV41Config, profile: KernelProfile, step: MeasuredStep) -> tuple[float, float, float]:
    """Milliseconds by the profile alone: dense ops, experts, head."""
    costs = StepCosts(step.config(config), profile)
    model = costs.config
    drafts = model.dspark_block_size if step.part == "drafts" else 0
    rows = step.num_seqs * (1 + drafts)
    dense = costs.dense_us(rows, step.context_len)
    experts = model.num_hidden_layers * costs.experts_us(
        _random_work(model.n_routed_experts, model.num_experts_per_tok, rows)
    )
    head = costs.head_us(rows) if step.part != "forward" else 0.0
    if drafts:
        passes = DraftCosts(costs, profile)
        work = _random_work(model.dspark_n_routed_experts, model.dspark_num_experts_per_tok, step.num_seqs * drafts)
        dense += passes.dense_us(step.num_seqs, step.context_len)
        experts += passes.num_stages * passes.experts_us(work)
    return dense / 1e3, experts / 1e3, head / 1e3


def _random_work(num_experts: int, top_k: int, rows: int) -> ExpertWork:
    return ExpertWork(awake_experts_of_random_router(num_experts, top_k, rows), rows * top_k, rows)


def _factors(parts: np.ndarray, times: Sequence[float] | np.ndarray) -> tuple[float, float]:
    if len(parts) < 2:
        return 1.0, 1.0
    relative = parts / np.asarray(times)[:, None]
    found = np.linalg.lstsq(relative[:, :2], 1 - relative[:, 2], rcond=None)[0]
    return float(found[0]), float(found[1])
