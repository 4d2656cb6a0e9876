"""What `deepinfer inspect` tells about a checkpoint or config."""

from __future__ import annotations

from dataclasses import dataclass

from deepinfer.checkpoint.memory_fit import MemoryFit


@dataclass(frozen=True, slots=True)
class CheckpointReport:
    """Figures of one model, from its name table (and held against the files when there are any).

    Attributes:
        path: what was inspected.
        num_shards: safetensors files; 0 when only a config was there.
        num_tensors: stored tensors.
        num_bytes: payload bytes.
        bytes_by_dtype: safetensors type -> bytes.
        bytes_by_group: part of the model -> bytes.
        num_parameters: weights (scales not counted), without the Engram tables.
        num_table_parameters: weights of the Engram tables.
        active_prefill_parameters: matrix weights a prompt token multiplies with in the encoder half: the layers
            before the first with ratio 1, and that layer's cache projections; all layers when there is none.
        active_decode_parameters: matrix weights a decoded token multiplies with, output head included.
        kv_bytes_per_token: paged cache bytes per token.
        state_bytes_per_sequence: window and compressor rings of one sequence, drafts off.
        memory: fit into a given memory, None when not asked.
    """

    path: str
    num_shards: int
    num_tensors: int
    num_bytes: int
    bytes_by_dtype: dict[str, int]
    bytes_by_group: dict[str, int]
    num_parameters: int
    num_table_parameters: int
    active_prefill_parameters: int
    active_decode_parameters: int
    kv_bytes_per_token: float
    state_bytes_per_sequence: int
    memory: MemoryFit | None
