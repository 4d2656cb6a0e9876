"""Tokens that ranks get under a placement of experts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from deepinfer.distributed.expert_placement import ExpertPlacement


def rank_loads(loads: npt.NDArray[np.int64], placement: ExpertPlacement) -> npt.NDArray[np.float64]:
    """Tokens of each rank, where the replicas of an expert share its tokens evenly.

    Args:
        loads: int64 [steps, num_layers, num_logical], tokens of each expert.
        placement: of the same layers and experts.

    Returns:
        float64 [steps, num_layers, num_ranks].
    """
    num_steps, num_layers, _ = loads.shape
    shares = loads / placement.replica_counts
    held = np.take_along_axis(shares, placement.physical_to_logical[None], axis=2)
    return held.reshape(num_steps, num_layers, placement.num_ranks, placement.slots_per_rank).sum(axis=3)
