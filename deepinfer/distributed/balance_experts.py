"""EPLB: a placement of the experts of all layers from the loads of past steps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from deepinfer.distributed.balance_layer import balance_layer
from deepinfer.distributed.expert_placement import ExpertPlacement


def balance_experts(loads: npt.NDArray[np.int64], num_physical: int, num_ranks: int) -> ExpertPlacement:
    """`balance_layer` for every layer.

    Args:
        loads: int64 [steps, num_layers, num_logical], tokens of each expert, of the whole group.
        num_physical: places of a layer, at least num_logical and a multiple of num_ranks.
        num_ranks: ranks of the expert-parallel group.
    """
    layers = [balance_layer(loads[:, layer], num_physical, num_ranks) for layer in range(loads.shape[1])]
    return ExpertPlacement.of_physical(np.stack(layers), loads.shape[2], num_ranks)
