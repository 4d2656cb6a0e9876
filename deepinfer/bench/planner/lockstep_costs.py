"""What steps of ranks in lockstep take beside the device's own work, as a run of such ranks has measured it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deepinfer.bench.planner.op_curve import Growth, OpCurve

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class LockstepCosts:
    """Decode steps from static tensors (`doc/wide_ep.md`, section 4).

    Attributes:
        exchange: (bytes that a rank sends, us) of the exchange of one layer, replayed from a graph, bytes ascending.
        host: (sequences on a rank, ms) by which such a step is longer than one of a rank by itself with the same work
            on the device, sequences ascending: votes and, without overlap, planning, launches and books.
        experts: (ranks, sequences on each, us) of one layer's experts on the rank that takes longest, measured on one
            GPU; maybe none.
    """

    exchange: Points
    host: Points
    experts: tuple[tuple[int, int, float], ...] = ()

    @classmethod
    def parse(cls, value: Any) -> LockstepCosts:
        """From a JSON object with lists of pairs. ValueError or TypeError for anything else."""
        exchange, host = (tuple(sorted((float(x), float(y)) for x, y in value[name])) for name in ("exchange", "host"))
        experts = sorted((int(ranks), int(seqs), float(us)) for ranks, seqs, us in value.get("experts", ()))
        costs = cls(exchange, host, tuple(experts))
        if not costs.exchange or not costs.host:
            raise ValueError("lockstep: exchange and host are lists of at least one pair of numbers")
        return costs

    def exchange_us(self, num_rows: float, top_k: int, hidden_size: int, num_ranks: int) -> float:
        """One layer: to each other rank all rows in bf16 with place and weight of each pick, and back an output of
        each pick, computed there or not. 0 for a single rank.
        """
        if num_ranks == 1:
            return 0.0
        row, picks = 2 * hidden_size + 8 * top_k, 2 * hidden_size * top_k
        return OpCurve([*self.exchange], Growth.ROWS).us(num_rows * (num_ranks - 1) * (row + picks))

    def host_us(self, num_seqs: float, num_ranks: int) -> float:
        """In straight lines between measured points, level beyond them; 0 for a rank by itself."""
        if num_ranks == 1:
            return 0.0
        seqs, ms = zip(*self.host, strict=True)
        return 1e3 * float(np.interp(num_seqs, seqs, ms))
