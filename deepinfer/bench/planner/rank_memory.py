"""What lies on a GPU: weights by expert-parallel width, and how many sequences fit beside them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deepinfer.checkpoint.inspect import inspect_checkpoint
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.config.numerics import Numerics
from deepinfer.core.cache_spec import CacheSpec
from deepinfer.distributed.expert_placement import ExpertPlacement
from deepinfer.worker.kv_cache import cache_table

_USED_SHARE: Final = 0.9  # default of gpu_memory_utilization
_WORK_BYTES: Final = (
    6 * 2**30
)  # activations, graphs, communication buffers, CUDA context: a reserve (doc/full_model.md)
_BLOCK_SIZE: Final = 128


@dataclass(frozen=True, slots=True)
class RankMemory:
    """Bytes of a model's parts; Engram tables lie in host memory.

    Attributes:
        config: of the model.
        copied: weights that every GPU has.
        routed, draft: weights that are split, redundant experts not counted.
        per_token, per_seq: cache of a token, and state of a sequence.
        usable: of one GPU.
    """

    config: DeepSeekV41Config
    copied: int
    routed: int
    draft: int
    per_token: float
    per_seq: int
    usable: float

    @classmethod
    def of_model(cls, path: Path, gpu_memory: int) -> RankMemory:
        """Of a checkpoint or a config file, on GPUs of `gpu_memory` bytes each."""
        report = inspect_checkpoint(path, _layout)
        groups = report.bytes_by_group
        routed, draft = groups.get("routed_experts", 0), groups.get("draft", 0)
        elsewhere = groups.get("engram_tables", 0) + groups.get("vision", 0)
        return cls(
            config=DeepSeekV41Config.from_path(path),
            copied=report.num_bytes - routed - draft - elsewhere,
            routed=routed,
            draft=draft,
            per_token=report.kv_bytes_per_token,
            per_seq=report.state_bytes_per_sequence,
            usable=gpu_memory * _USED_SHARE - _WORK_BYTES,
        )

    def weight_bytes(self, width: int, min_extra: int) -> float:
        """Of a GPU among `width` that share the experts, with at least `min_extra` redundant ones in all."""
        config = self.config
        places = ExpertPlacement.round_up(config.n_routed_experts, min_extra, width)
        total = self.copied + self.routed * places / config.n_routed_experts / width
        if config.num_nextn_predict_layers:
            draft_places = ExpertPlacement.round_up(config.dspark_n_routed_experts, min_extra, width)
            total += self.draft * draft_places / config.dspark_n_routed_experts / width
        return total

    def max_seqs(self, width: int, min_extra: int, context_len: int) -> int:
        """Sequences of `context_len` tokens that fit on a GPU beside its weights; 0 when these do not."""
        left = self.usable - self.weight_bytes(width, min_extra)
        return max(0, int(left / (self.per_seq + context_len * self.per_token)))


def _layout(config: DeepSeekV41Config) -> tuple[CacheSpec, ...]:
    return cache_table(config, Numerics.OFFICIAL, "auto", _BLOCK_SIZE)
