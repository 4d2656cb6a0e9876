"""EPLB for one layer: which expert lies in each place, from the loads of past steps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from deepinfer.distributed.improve_placement import improve_placement
from deepinfer.distributed.place_replicas import place_replicas
from deepinfer.distributed.replicate_experts import replicate_experts


def balance_layer(loads: npt.NDArray[np.int64], num_physical: int, num_ranks: int) -> npt.NDArray[np.int64]:
    """Hot experts get several places, places are spread over ranks, and one pass of local search mends the result.

    What is made small is the sum over steps of the tokens on the fullest rank, since all ranks wait for it
    (spec/engine.md 5.6; the local search is ours). The result depends on the arguments alone: ranks may compute it each
    for themselves, or some layers each and exchange them. 384 experts in 448 places of 64 ranks take 0.25 s for 64
    steps, 0.9 s for 256.

    Args:
        loads: int64 [steps, num_logical], tokens of each expert, of the whole group.
        num_physical: places, at least num_logical and a multiple of num_ranks (`ExpertPlacement.round_up`).
        num_ranks: ranks of the expert-parallel group.

    Returns:
        int64 [num_physical], the expert in each place (a row of `ExpertPlacement.physical_to_logical`).
    """
    tokens = loads.astype(np.float64)
    counts = replicate_experts(tokens, num_physical)
    replicas = np.repeat(np.arange(len(counts)), counts)
    placed = replicas[place_replicas(tokens[:, replicas] / counts[replicas], num_ranks)]
    return improve_placement(tokens, placed).reshape(-1)
