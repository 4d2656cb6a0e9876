"""One index source layer on its own: random weights and index keys, sequences of given lengths."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from deepinfer.config.layer_plan import LayerPlan
from deepinfer.config.numerics import Numerics
from deepinfer.core.cache_spec import KVRounding, VectorFormat
from deepinfer.core.cache_tensors import VectorCache
from deepinfer.core.probe import Probe
from deepinfer.core.selection import Selection
from deepinfer.core.step_batch import StepBatch
from deepinfer.models.deepseek_v41.entry_map import EntryMap
from deepinfer.models.deepseek_v41.indexer import Indexer
from deepinfer.models.deepseek_v41.rope import RopeTable
from deepinfer.ops import composed, reference
from tests.ops.builders import fp8_weight, normal

HEADS, DIM, WIDTH, BLOCK = 4, 32, 32, 8


class RecordingOps:
    """The reference ops; remembers the largest keys and scores (bytes) that `index_scores` met."""

    def __init__(self) -> None:
        self.key_bytes = self.score_bytes = self.calls = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(reference, name)

    def select_entries(self, *args: Any, **options: Any) -> Selection:
        return composed.select_entries(self, *args, **options)  # type: ignore[arg-type]

    def index_scores(self, q: torch.Tensor, weights: torch.Tensor, keys: torch.Tensor, *rest: Any, **options: Any):
        scores = reference.index_scores(q, weights, keys, *rest, **options)
        self.calls += 1
        self.key_bytes = max(self.key_bytes, keys.numel() * 4)
        self.score_bytes = max(self.score_bytes, scores.numel() * 4)
        return scores


@dataclass
class IndexerCase:
    """Sequences with (tokens in the cache, rows of the step); one entry per token, keys unrounded."""

    starts: list[int]
    lengths: list[int]
    topk: int = 4
    numerics: Numerics = Numerics.FP32
    probe: Probe = field(default_factory=Probe)
    ops: RecordingOps = field(default_factory=RecordingOps)

    def __post_init__(self) -> None:
        ends = [start + length for start, length in zip(self.starts, self.lengths, strict=True)]
        counts = [-(-end // BLOCK) for end in ends]
        used = sum(counts)
        self.keys = normal(used, BLOCK, DIM, seed=5)
        positions = torch.cat([torch.arange(s, e) for s, e in zip(self.starts, ends, strict=True)])
        empty = torch.empty(0, dtype=torch.int64)
        zeros = np.zeros(len(ends), dtype=np.int64)
        self.batch = StepBatch(
            token_ids=positions,
            positions=positions,
            block_ids=torch.arange(used),
            ngram_ids=empty,
            logit_rows=empty,
            lengths=np.array(self.lengths),
            starts=np.array(self.starts),
            state_slots=np.arange(len(ends)),
            first_blocks=np.cumsum([0, *counts[:-1]]),
            window_starts=zeros,
            entry_starts=zeros,
            consumer_starts=zeros,
        )

    def run(self, x: torch.Tensor, q_lora: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """(picks, candidates) of inputs x and q_lora, both [T, 32]."""
        config = SimpleNamespace(
            index_head_dim=DIM,
            index_scale=DIM**-0.5 * HEADS**-0.5,
            index_n_heads=HEADS,
            index_topk=self.topk,
            candidate_block_size=2,
            candidate_topk_blocks=self.topk,
            num_candidate_entries=2 * self.topk,
        )
        low = self.numerics.low_precision
        runtime = SimpleNamespace(
            config=config,
            ops=self.ops,
            numerics=self.numerics,
            quantize=self.numerics.quantize,
            act_dtype=torch.bfloat16 if low else torch.float32,
        )
        weights = SimpleNamespace(
            fp8=lambda name: fp8_weight(HEADS * DIM, WIDTH), plain=lambda name: normal(HEADS, WIDTH, seed=2).abs()
        )
        last = int(self.batch.positions.max()) + 1
        rope = RopeTable(*reference.rope_table(10000, 8, None, last))
        plan = LayerPlan(0, 1, 0, 0, True, True, True, False, None)
        data = self.keys.view(torch.uint8)
        cache = VectorCache(data, VectorFormat(DIM, KVRounding.NONE, False))
        ctx: Any = SimpleNamespace(
            batch=self.batch,
            caches=SimpleNamespace(index={0: cache}),
            probe=self.probe,
            entries={1: EntryMap.build(self.batch, 1, BLOCK, 1)},
            picks={},
            candidates=None,
            rope=lambda table: table.at(self.batch.positions),
        )
        Indexer(runtime, weights, plan, rope)(x, q_lora, ctx)  # type: ignore[arg-type]
        return ctx.picks[0], ctx.candidates
