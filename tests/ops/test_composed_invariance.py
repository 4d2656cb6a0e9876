"""Compound ops: a row's result is bit-equal alone, among others, at any place, on one to eight threads."""

from __future__ import annotations

import torch

from deepinfer.core.cache_spec import KVRounding, VectorFormat
from deepinfer.core.cache_tensors import VectorCache
from deepinfer.core.paged_entries import PagedEntries
from deepinfer.ops import Ops
from tests.ops.builders import fp8_weight, normal, paged
from tests.ops.invariance import assert_rows_independent

F32, BF16 = torch.float32, torch.bfloat16
SIZES = (1, 2, 17)


def test_streams(ops: Ops):
    table, weight = normal(50, 64, dtype=BF16), normal(64, seed=1)
    ids = torch.randint(0, 50, (40,), generator=torch.Generator().manual_seed(0))
    assert_rows_independent(lambda i: ops.expand_embedding(i, table, 4, F32), ids, sizes=SIZES)
    assert_rows_independent(lambda i: ops.gather_rows(table, i), ids, sizes=SIZES)
    assert_rows_independent(
        lambda s, p: ops.hc_read_norm(s, p, weight, 1e-20, BF16), normal(40, 4, 64), normal(40, 4, seed=2), sizes=SIZES
    )
    mixing, options = (
        (normal(24, 256, seed=3), normal(24, seed=4), normal(3, seed=5)),
        {"sinkhorn_iters": 5, "eps": 1e-6},
    )

    def step(s: torch.Tensor, p: torch.Tensor, out: torch.Tensor, comb: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return ops.hc_step(s, p, (out, p, comb), weight, mixing, **options, norm_eps=1e-20, out_dtype=BF16)

    rows = (normal(40, 4, 64), normal(40, 4, seed=2), normal(40, 64, seed=6), normal(40, 4, 4, seed=7))
    assert_rows_independent(step, *rows, sizes=SIZES)


def test_store_vectors(ops: Ops):
    layout, weight = VectorFormat(64, KVRounding.FP8_GROUP32, True), normal(64, seed=1)

    def stored(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        cache = VectorCache(torch.zeros(x.shape[0], 1, layout.num_bytes, dtype=torch.uint8), layout)
        places = torch.zeros(x.shape[0], dtype=torch.int64)
        ops.store_vectors(
            x, weight, cos, sin, cache, torch.arange(x.shape[0]), places, eps=1e-20, act_dtype=BF16
        )  # fmt: skip
        return cache.data

    angle = normal(40, 16, seed=1)
    assert_rows_independent(stored, normal(40, 64, dtype=BF16), angle.cos(), angle.sin(), sizes=SIZES)


def test_compress_pairs(ops: Ops):
    new, state = normal(60, 2, 33), normal(7, 3, 2, 33, seed=1)
    carried = torch.randint(-1, 21, (40,), generator=torch.Generator().manual_seed(0))
    assert_rows_independent(
        lambda second, place: ops.compress_pairs(new, state, second, place, F32), torch.arange(40), carried, sizes=SIZES
    )


def test_rotate_grouped_linear(ops: Ops):
    weight, angle = fp8_weight(2 * 32, 96), normal(40, 8, seed=1)
    options = {"num_groups": 2, "quantize": True, "out_dtype": BF16}
    assert_rows_independent(
        lambda heads, cos, sin: ops.rotate_grouped_linear(heads, cos, sin, weight, **options),
        normal(40, 6, 32, dtype=BF16), angle.cos(), angle.sin(), sizes=SIZES,
    )  # fmt: skip


def test_selection_and_attention(ops: Ops):
    """Rows of three sequences, of which the shortest takes all that it sees."""
    seq, visible = (
        torch.arange(40) * 3 // 40,
        torch.arange(40) % 14 + torch.tensor([80, 0, 180])[torch.arange(40) * 3 // 40],
    )
    layout = VectorFormat(32, KVRounding.FP4_GROUP32, True)
    stored = paged(normal(3, 208, 32, seed=1), layout, 16, seq)
    options = {
        "max_visible": 194, "topk": 14, "scale": 0.25, "round_bf16": True, "block_size": 8, "num_blocks": 5,
        "with_margins": True,
    }  # fmt: skip

    def select(q: torch.Tensor, w: torch.Tensor, first: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        got = ops.select_entries(q, w, PagedEntries(stored.cache, stored.block_ids, first), v, None, **options)
        assert got.blocks is not None and got.margin is not None and got.block_margin is not None
        return got.picks, got.blocks, got.margin, got.block_margin

    q, rows = normal(40, 4, 32), (normal(40, 4, seed=2), stored.first_block, visible)
    assert_rows_independent(select, q, *rows, sizes=SIZES)
    picks, index = select(q, *rows)[0], torch.randint(-1, 30, (40, 16), generator=torch.Generator().manual_seed(3))
    window_format = VectorFormat(32, KVRounding.NONE, False)
    window, sink = normal(30, 32, seed=4).view(torch.uint8), normal(4, seed=5)

    def attend(q: torch.Tensor, i: torch.Tensor, first: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        entries = PagedEntries(stored.cache, stored.block_ids, first)
        return ops.sparse_attention(
            q, window, i, entries, p, sink, window_format=window_format, scale=0.2, out_dtype=F32
        )

    assert_rows_independent(attend, q, index, stored.first_block, picks, sizes=SIZES)
