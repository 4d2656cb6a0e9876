"""How much memory the exchanges between ranks take beside the scratch of a step."""

from __future__ import annotations

from typing import Final

from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.config.parallel_config import ParallelConfig

_ACT: Final = 2  # bf16
_FLOAT: Final = 4
_LISTED: Final = 40  # of a pick: place, slot and weight, and its part in the lists of the experts' kernels
_NUMBER: Final = 3 * 8  # of a table row that is asked for: as it travels, here, and its owner


def exchange_bytes(sizes: ParallelConfig, config: DeepSeekV41Config, num_rows: int) -> int:
    """Of the largest of a layer's exchanges in a decode step from static tensors, for so many rows on every rank
    (`StaticExchange`, `StaticRows`).
    """
    experts = engram = 0
    if sizes.expert_parallel_size > 1:
        dim, width, picks = config.hidden_size, config.moe_intermediate_size, config.num_experts_per_tok
        row = 3 * _ACT * dim  # as it travels, unpacked, and quantized
        pick = _ACT * (2 * dim + width) + _LISTED  # its output here, that of another rank in return, its hidden vector
        experts = num_rows * sizes.expert_parallel_size * (row + picks * pick)
    if sizes.engram_parallel_size > 1 and config.has_engram:
        numbers = (config.engram_max_ngram_size - 1) * config.engram_n_heads
        values = (_FLOAT + 2 * _ACT) * config.engram_head_dim  # looked up, rounded, and those of another rank in return
        engram = num_rows * sizes.engram_parallel_size * numbers * (values + _NUMBER)
    return max(experts, engram)


def spread_bytes(sizes: ParallelConfig, config: DeepSeekV41Config, num_rows: int) -> int:
    """Of a layer's exchange in any other step (`ExpertExchange`), for so many rows on every rank and experts that are
    asked for evenly. What a rank with busier experts takes beyond that has to fit into what memory plans leave free.
    """
    if sizes.expert_parallel_size == 1:
        return 0
    vector, picks = _ACT * config.hidden_size, config.num_experts_per_tok
    row = 3 * vector  # as it leaves and as it comes, quantized, and unpacked
    pick = 4 * vector + _LISTED  # its output elsewhere, here, unpacked, and in its place
    return num_rows * (min(picks, sizes.expert_parallel_size) * row + picks * pick)
