"""EPLB over recorded steps: how even the ranks would have been."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from deepinfer.bench.line_plot import LinePlot
from deepinfer.distributed.align_placement import align_placement
from deepinfer.distributed.balance_experts import balance_experts
from deepinfer.distributed.expert_placement import ExpertPlacement
from deepinfer.distributed.plan_shuffle import plan_shuffle
from deepinfer.distributed.rank_loads import rank_loads

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BalanceReplay:
    """Tokens of the fullest rank (peak) and of the mean one, summed over layers, for every step.

    Attributes:
        means: float64 [steps], of the mean rank.
        initial: float64 [steps], of the fullest rank with experts in order.
        online: likewise, where placements follow from the steps before them.
        hindsight: likewise, with one placement made from all the steps.
        num_moves: places written by each rearrangement, transfers between ranks alone.
    """

    means: Floats
    initial: Floats
    online: Floats
    hindsight: Floats
    num_moves: tuple[int, ...]

    @classmethod
    def run(
        cls, loads: npt.NDArray[np.int64], num_ranks: int, min_extra: int, *, interval: int, window: int
    ) -> BalanceReplay:
        """
        Args:
            loads: int64 [steps, layers, experts].
            num_ranks: ranks of the expert-parallel group.
            min_extra: redundant places of a layer, rounded up so that all ranks have equally many places.
            interval: steps between rearrangements; the first comes after a quarter of it (spec/engine.md 5.6).
            window: steps that a rearrangement looks back.
        """
        num_physical = ExpertPlacement.round_up(loads.shape[2], min_extra, num_ranks)
        initial = ExpertPlacement.initial(loads.shape[1], loads.shape[2], num_physical, num_ranks)
        placement, online, num_moves, begin = initial, [], [], 0
        for end in [*range(max(1, interval // 4), len(loads), interval), len(loads)]:
            online.append(_peaks(loads[begin:end], placement))
            if end < len(loads):
                new = balance_experts(loads[max(0, end - window) : end], num_physical, num_ranks)
                new = align_placement(placement, new)
                num_moves.append(sum(len(layer.transfers) for layer in plan_shuffle(placement, new)))
                placement = new
            begin = end
        hindsight = _peaks(loads, balance_experts(loads, num_physical, num_ranks))
        means = loads.sum(axis=(1, 2)) / num_ranks
        return cls(means, _peaks(loads, initial), np.concatenate(online), hindsight, tuple(num_moves))

    @property
    def ratios(self) -> dict[str, float]:
        """Peak to mean over all steps, by kind of placement; 1 is even."""
        mean = self.means.sum() or 1.0
        kinds = {"initial": self.initial, "online": self.online, "hindsight": self.hindsight}
        return {name: float(peaks.sum() / mean) for name, peaks in kinds.items()}

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return {"num_steps": len(self.means), "peak_to_mean": self.ratios, "transfers": list(self.num_moves)}

    def plot(self) -> LinePlot:
        """Peak to mean of every step that has tokens."""
        plot = LinePlot("Balance of ranks", "step", "tokens of the fullest rank / of the mean rank")
        kinds = {"initial": self.initial, "online": self.online, "hindsight": self.hindsight}
        steps = np.flatnonzero(self.means)
        for name, peaks in kinds.items():
            ratios = (peaks[steps] / self.means[steps]).tolist()
            plot.add(f"{name} ({self.ratios[name]:.2f})", list(zip(steps.tolist(), ratios, strict=True)))
        return plot


def _peaks(loads: npt.NDArray[np.int64], placement: ExpertPlacement) -> Floats:
    return rank_loads(loads, placement).max(axis=2).sum(axis=1)
