"""What several GPUs would decode, by how many of them share the experts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from deepinfer.bench.line_plot import LinePlot
from deepinfer.bench.planner.calibration import Calibration
from deepinfer.bench.planner.decode_planner import DecodePlanner
from deepinfer.bench.planner.draft_costs import DraftCosts
from deepinfer.bench.planner.kernel_profile import KernelProfile
from deepinfer.bench.planner.plan_options import PlanOptions
from deepinfer.bench.planner.plan_point import PlanPoint
from deepinfer.bench.planner.rank_memory import RankMemory
from deepinfer.bench.planner.step_costs import StepCosts
from deepinfer.errors import ConfigError

MOST_ERROR: Final = 0.10  # of the model on measured steps, before it may predict


@dataclass(frozen=True, slots=True)
class DecodePlan:
    """
    Attributes:
        options: what it is for.
        calibration: how the model of costs fares on measured steps.
        weight_bytes: by width, on each GPU.
        curves: by width, ascending sequences on a GPU.
    """

    options: PlanOptions
    calibration: Calibration
    weight_bytes: Mapping[int, float]
    curves: Mapping[int, tuple[PlanPoint, ...]]

    @classmethod
    def make(cls, memory: RankMemory, profile: KernelProfile, options: PlanOptions) -> DecodePlan:
        """Fits the model of costs to the profile's steps, then predicts all widths at which the model fits.

        ConfigError when no width does.
        """
        costs = StepCosts(memory.config, profile)
        drafts = DraftCosts(costs, profile) if options.num_drafts else None
        calibration = Calibration.fit(memory.config, profile)
        planner = DecodePlanner(costs, drafts, calibration, memory, options)
        widths = planner.widths()
        if not widths:
            need = memory.weight_bytes(options.num_gpus, options.min_extra) / 2**30
            raise ConfigError(
                f"{options.num_gpus} GPUs do not hold the model: weights of {need:.1f} GiB and a sequence of "
                f"{options.context_len:,} tokens against {max(0.0, memory.usable) / 2**30:.1f} GiB usable on each; "
                "take more GPUs, or larger ones"
            )
        return cls(
            options,
            calibration,
            {width: memory.weight_bytes(width, options.min_extra) for width in widths},
            {width: tuple(planner.curve(width)) for width in widths},
        )

    def at_floors(self, memory: RankMemory, profile: KernelProfile) -> DecodePlan:
        """The same question with every op as fast as the GPU lets it be (`KernelProfile.at_floors`), uncalibrated."""
        return DecodePlan.make(memory, profile.at_floors(), self.options)

    def require_accuracy(self) -> None:
        """ConfigError unless the model reproduces at least three measured steps without drafts within 10 %."""
        checks = [check for check in self.calibration.checks if check.step.part != "drafts"]
        if len(checks) < 3:
            raise ConfigError(
                f"the profile has {len(checks)} measured steps without drafts, and two factors are fitted to them; "
                'add three or more under "steps", or pass --unchecked'
            )
        worst = max(checks, key=lambda check: abs(check.error))
        if abs(worst.error) > MOST_ERROR:
            raise ConfigError(
                f"the model of costs says {worst.model_ms:.2f} ms for a step that took {worst.step.ms:.2f} ms "
                f"({worst.step.num_seqs} sequences, {worst.error:+.0%}); it predicts nothing unless it is within "
                f"{MOST_ERROR:.0%}: measure ops and steps with one version, or pass --unchecked"
            )

    def peak(self, width: int) -> PlanPoint:
        """The most tokens a second and GPU."""
        return max(self.curves[width], key=lambda point: point.tokens_per_s_per_gpu)

    def best_at(self, width: int, tokens_per_s_per_user: float) -> PlanPoint | None:
        """The most tokens a second and GPU at no less than a speed for each user; None when it cannot be had."""
        fast = [point for point in self.curves[width] if point.tokens_per_s_per_user >= tokens_per_s_per_user]
        return max(fast, key=lambda point: point.tokens_per_s_per_gpu, default=None)

    def pareto(self) -> list[PlanPoint]:
        """Points of all widths that none is better than in both speeds, fastest for the user first."""
        points = [point for curve in self.curves.values() for point in curve]
        points.sort(key=lambda point: (-point.tokens_per_s_per_user, -point.tokens_per_s_per_gpu))
        front: list[PlanPoint] = []
        for point in points:
            if not front or point.tokens_per_s_per_gpu > front[-1].tokens_per_s_per_gpu:
                front.append(point)
        return front

    def plot(self) -> LinePlot:
        """Tokens a second and GPU against tokens a second and user, a line a width."""
        options = self.options
        title = f"Decoding on {options.num_gpus} GPUs, context of {options.context_len:,} tokens (predicted)"
        plot = LinePlot(title, "tokens/s/user", "tokens/s/GPU")
        for width, curve in self.curves.items():
            points = [(point.tokens_per_s_per_user, point.tokens_per_s_per_gpu) for point in curve]
            plot.add(f"experts over {width}", points)
        front = [(point.tokens_per_s_per_user, point.tokens_per_s_per_gpu) for point in self.pareto()]
        plot.add("best of all", front, marks=True)
        return plot

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        checks = [
            {
                "num_seqs": check.step.num_seqs,
                "context_len": check.step.context_len,
                "part": check.step.part,
                "measured_ms": check.step.ms,
                "model_ms": check.model_ms,
                "unseen_ms": check.unseen_ms,
            }
            for check in self.calibration.checks
        ]
        return {
            "num_gpus": self.options.num_gpus,
            "context_len": self.options.context_len,
            "dense_factor": self.calibration.dense_factor,
            "expert_factor": self.calibration.expert_factor,
            "checks": checks,
            "weight_bytes": {str(width): size for width, size in self.weight_bytes.items()},
            "points": [point.to_dict() for curve in self.curves.values() for point in curve],
            "pareto": [[point.width, point.num_seqs] for point in self.pareto()],
        }
