"""How uneven ranks are loaded: the figure that EPLB lowers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from deepinfer.distributed.expert_placement import ExpertPlacement
from deepinfer.distributed.rank_loads import rank_loads


def peak_to_mean(loads: npt.NDArray[np.int64], placement: ExpertPlacement) -> npt.NDArray[np.float64]:
    """Sum over steps of the fullest rank's tokens over that of the mean rank's, per layer: 1 is even, num_ranks the
    worst. A layer without tokens counts as even.

    Args:
        loads: int64 [steps, num_layers, num_logical], tokens of each expert.
        placement: of the same layers and experts.

    Returns:
        float64 [num_layers].
    """
    per_rank = rank_loads(loads, placement)
    peaks, means = per_rank.max(axis=2).sum(axis=0), per_rank.mean(axis=2).sum(axis=0)
    return np.divide(peaks, means, out=np.ones_like(peaks), where=means > 0)
