"""Ops over paged caches: selection of entries and attention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import torch

from deepinfer.bench.op_case import OpCase, Operands
from deepinfer.bench.random_operands import RandomOperands
from deepinfer.config.layer_plan import LayerPlan
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.core.cache_spec import KVRounding
from deepinfer.core.cache_tensors import VectorCache
from deepinfer.core.paged_entries import PagedEntries

MOST_SEQUENCES: Final = 512  # of a decode step; more rows than theirs are a chunk of one sequence's prompt
_BLOCK_SIZE: Final = 128


class PagedRows:
    """Rows of a step: some of each sequence, or a chunk of one prompt.

    Args:
        rows: of the step.
        ratio: tokens of an entry.
        context_len: tokens before the (first) row of a sequence.
        rows_per_seq: neighbours, of one sequence: its newest token and drafts.
    """

    def __init__(self, rows: int, ratio: int, context_len: int, rows_per_seq: int = 1) -> None:
        is_chunk = rows > MOST_SEQUENCES * rows_per_seq
        self._rows = rows
        self._rows_per_seq = rows if is_chunk or rows % rows_per_seq else rows_per_seq
        self._num_visible = [max(1, (context_len + 1 + i % self._rows_per_seq) // ratio) for i in range(rows)]

    @property
    def max_visible(self) -> int:
        """Of the last row."""
        return self._num_visible[-1]

    def num_visible(self, device: torch.device) -> torch.Tensor:
        """int64 [rows]."""
        return torch.tensor(self._num_visible, device=device)

    def entries(self, random: RandomOperands, pool: VectorCache) -> PagedEntries:
        """Block tables that point all over `pool`."""
        blocks = -(-self.max_visible // pool.num_entries)
        sequences = self._rows // self._rows_per_seq
        first = torch.arange(sequences, device=random.device).mul(blocks).repeat_interleave(self._rows_per_seq)
        return PagedEntries(pool, random.integers(pool.data.shape[0], sequences * blocks), first)

    def window_index(self, width: int, device: torch.device) -> torch.Tensor:
        """int64 [rows, width] places of each row's window; those of one sequence overlap."""
        rows = torch.arange(self._rows, device=device)
        sequences, within = rows // self._rows_per_seq, rows % self._rows_per_seq
        first = sequences * (width + self._rows_per_seq - 1) + within
        return first.unsqueeze(1) + torch.arange(width, device=device)


def attention_cases(
    config: DeepSeekV41Config, random: RandomOperands, context_len: int, rows_per_seq: int = 1
) -> Iterator[OpCase]:
    """Layers of equal work are one case. Arguments: see `PagedRows`."""
    context = (context_len, rows_per_seq)
    plans = config.layer_plans
    kinds = Counter((p.ratio, p.is_candidate_source, p.uses_candidates) for p in plans if p.owns_index)
    by_kind = {(p.ratio, p.is_candidate_source, p.uses_candidates): p for p in plans if p.owns_index}
    for kind, count in kinds.items():
        use = f"ratio {kind[0]}" + (", makes candidates" if kind[1] else ", of candidates" if kind[2] else "")
        prepare = partial(_select, config, random, by_kind[kind], context)
        yield OpCase("select_entries", use, count, prepare, True)
    for ratio, count in Counter(plan.ratio for plan in plans).items():
        use = f"window and ratio {ratio}" if ratio else "window"
        yield OpCase("sparse_attention", use, count, partial(_attend, config, random, ratio, context), True)


def _select(
    config: DeepSeekV41Config, random: RandomOperands, plan: LayerPlan, context: tuple[int, int]
) -> Callable[[int], Operands]:
    heads, dim, size = config.index_n_heads, config.index_head_dim, config.candidate_block_size
    pool = random.pool(dim, KVRounding.FP4_GROUP32, _BLOCK_SIZE // plan.ratio)

    def operands(rows: int) -> Operands:
        paged = PagedRows(rows, plan.ratio, *context)
        entries, candidates = paged.entries(random, pool), None
        skips_blocks = paged.max_visible <= config.num_candidate_entries  # as `Indexer` does
        if plan.uses_candidates and not skips_blocks:
            blocks = -(-paged.max_visible // size)
            chosen = random.distinct(blocks, rows, min(blocks, config.candidate_topk_blocks))
            candidates = torch.nn.functional.pad(chosen, (0, config.candidate_topk_blocks - chosen.shape[1]), value=-1)
        query = random.floats(rows, heads, dim).round().clamp(-4, 4)  # values that FP4 has
        options = {
            "max_visible": paged.max_visible,
            "topk": config.index_topk,
            "scale": config.index_scale,
            "round_bf16": True,
            "block_size": size,
            "num_blocks": config.candidate_topk_blocks if plan.is_candidate_source and not skips_blocks else 0,
            "with_margins": False,
        }
        visible = paged.num_visible(random.device)
        return (query, random.floats(rows, heads), entries, visible, candidates), options

    return operands


def _attend(
    config: DeepSeekV41Config, random: RandomOperands, ratio: int, context: tuple[int, int]
) -> Callable[[int], Operands]:
    heads, dim, width = config.num_attention_heads, config.head_dim, config.sliding_window
    pool = random.pool(dim, KVRounding.FP4_GROUP16, _BLOCK_SIZE // ratio) if ratio else None

    def operands(rows: int) -> Operands:
        paged = PagedRows(rows, max(ratio, 1), *context)
        index = paged.window_index(width, random.device)
        window = random.vectors(dim, KVRounding.FP8_GROUP32, int(index[-1, -1]) + 1, 1)
        entries, picks = None, None
        if pool is not None:
            entries = paged.entries(random, pool)
            picks = random.integers(paged.max_visible, rows, config.index_topk).sort(dim=1).values
        args = (random.activations(rows, heads, dim), window.data[:, 0], index, entries, picks, random.floats(heads))
        options = {
            "window_format": window.format,
            "scale": config.softmax_scale,
            "out_dtype": torch.bfloat16,
        }
        return args, options

    return operands
