"""Every op: a row's result is bit-equal alone, among others, at any place, on one to eight threads."""

from __future__ import annotations

import importlib

import pytest
import torch

from deepinfer.core.cache_spec import KVRounding, VectorFormat
from deepinfer.ops import Ops, PrimitiveOps, composed, ngram_hash, reference
from deepinfer.ops.reference import exact_math as em
from deepinfer.ops.reference import matmul_rows, tree_sum
from deepinfer.ops.reference.bmm_rows import bmm_rows
from deepinfer.ops.reference.row_dot import row_dot
from deepinfer.ops.reference.sinkhorn import sinkhorn
from tests.ops.builders import fp4_weight, fp8_weight, normal
from tests.ops.invariance import assert_rows_independent

F32, BF16 = torch.float32, torch.bfloat16
MODES = pytest.mark.parametrize(("quantize", "dtype"), [(False, F32), (True, F32), (True, BF16)])
# Ops without values of a step's rows: they prepare weights, tables or maps.
WITHOUT_ROWS = {"rope_table", "map_rows", "resolve_rows"}
COVERED = {
    "linear", "quantized_linear", "grouped_linear", "rms_norm", "apply_rope", "hc_mix", "hc_read", "hc_write", "route",
    "moe", "pool_pairs", "index_scores", "select_topk", "select_blocks", "restrict_to_blocks",
    "attend_vectors", "ngram_rows", "engram_lookup", "engram_gate", "encode_vectors", "decode_vectors",
    "round_vectors", "sum_experts",
}  # fmt: skip
COMPOSED = {"expand_embedding", "gather_rows", *composed.__all__}  # test_composed_invariance.py


def test_every_op_is_covered():
    ops = {name for name in vars(Ops) | vars(PrimitiveOps) if not name.startswith("_")}
    assert ops == COVERED | COMPOSED | WITHOUT_ROWS


@pytest.mark.parametrize(
    ("rows", "k", "n"),
    [
        (40, 256, 130),
        (130, 33, 5),
        (40, 100, 37),
        (40, 1, 1),
        (40, 7, 3),
        (40, 4096, 24),
        (40, 640, 384),
        (2049, 32, 48),
        (40, 5376, 1),
        (40, 64, 1),
        (40, 33, 2),
    ],
)
def test_matmul_rows(rows: int, k: int, n: int):
    w = normal(n, k, seed=1)
    assert_rows_independent(lambda x: matmul_rows(x, w), normal(rows, k))


def test_matmul_rows_of_an_unaligned_view():
    w = normal(31, 64, seed=1)
    whole = normal(33, 64)
    storage = torch.empty(33 * 64 + 1)[1:].view(33, 64).copy_(whole)
    assert torch.equal(matmul_rows(storage, w), matmul_rows(whole, w))
    assert torch.equal(matmul_rows(whole[1:], w), matmul_rows(whole, w)[1:])


@pytest.mark.parametrize("n", [1, 2, 3, 31, 100, 256, 400, 1000, 5120])
def test_sums(n: int):
    assert_rows_independent(tree_sum, normal(40, n))
    assert_rows_independent(lambda x: row_dot(x, x), normal(40, n))


@pytest.mark.parametrize("function", [em.exp, em.log, em.sigmoid, em.silu, em.softplus, em.sqrt])
def test_exact_math(function):
    assert_rows_independent(function, normal(40_000).abs() * 9, sizes=(1, 2, 7, 15, 17, 33))


@pytest.mark.parametrize("dtype", [F32, BF16])
@pytest.mark.parametrize(("k", "n"), [(96, 70), (50, 33)])
def test_linear(dtype: torch.dtype, k: int, n: int):
    w = normal(n, k, seed=1, dtype=dtype)
    assert_rows_independent(lambda x: reference.linear(x, w, dtype), normal(40, k, dtype=dtype))


def test_linear_in_blocks_of_output_rows():
    w = normal(300, 8192, seed=1, dtype=BF16)
    assert_rows_independent(lambda x: reference.linear(x, w, F32), normal(20, 8192), sizes=(1, 17))


@MODES
@pytest.mark.parametrize(("k", "n"), [(256, 320), (96, 64), (70, 40)])
def test_quantized_linear(quantize: bool, dtype: torch.dtype, k: int, n: int):
    for w in (fp8_weight(n, k), fp4_weight(n, k)):
        assert_rows_independent(
            lambda x, w=w: reference.quantized_linear(x, w, quantize=quantize, out_dtype=dtype),
            normal(40, k, dtype=dtype),
        )


def test_many_rows():
    w = fp8_weight(64, 64)
    assert_rows_independent(
        lambda x: reference.quantized_linear(x, w, quantize=True, out_dtype=F32), normal(2049, 64), sizes=(1, 17)
    )


@MODES
@pytest.mark.parametrize(("groups", "rank", "k"), [(4, 32, 96), (1, 1, 96), (1, 1, 1024), (1, 7, 64), (3, 1, 64)])
def test_grouped_linear(quantize: bool, dtype: torch.dtype, groups: int, rank: int, k: int):
    w = fp8_weight(groups * rank, k)
    assert_rows_independent(
        lambda x: reference.grouped_linear(x, w, quantize=quantize, out_dtype=dtype),
        normal(40, groups, k, dtype=dtype),
    )


@pytest.mark.parametrize("dim", [1, 33, 128, 1280])
def test_rms_norm(ops: PrimitiveOps, dim: int):
    w = normal(dim, seed=1)
    assert_rows_independent(lambda x: ops.rms_norm(x, w, 1e-20, F32), normal(40, dim))
    assert_rows_independent(lambda x: ops.rms_norm(x, None, 1e-20, BF16), normal(40, dim, dtype=BF16))


def test_apply_rope(ops: PrimitiveOps):
    x, angle = normal(40, 3, 48, dtype=BF16), normal(40, 16, seed=1)
    assert_rows_independent(ops.apply_rope, x, angle.cos(), angle.sin())


@pytest.mark.parametrize(("size", "dim"), [(4, 64), (4, 50), (2, 32), (3, 40), (5, 72), (1, 32)])
def test_hyper_connection(ops: PrimitiveOps, size: int, dim: int):
    count = size * (size + 2)
    fn, base, scale = normal(count, size * dim, seed=1) * 0.1, normal(count, seed=2), normal(3, seed=3)
    assert_rows_independent(
        lambda x: ops.hc_mix(x, fn, base, scale, sinkhorn_iters=20, eps=1e-6, norm_eps=1e-20),
        normal(40, size, dim, dtype=BF16),
    )
    assert_rows_independent(
        lambda a: sinkhorn(a, iters=20, eps=1e-6), normal(40, size, size).exp(), sizes=(1, 15, 16, 17)
    )
    streams, out = normal(40, size, dim), normal(40, dim, seed=1)
    post, comb = normal(40, size, seed=2), normal(40, size, size, seed=3)
    assert_rows_independent(lambda s, p: ops.hc_read(s, p, BF16), streams, post)
    assert_rows_independent(ops.hc_write, streams, out, post, comb)


@pytest.mark.parametrize("num_experts", [4, 16, 384])
def test_route(ops: PrimitiveOps, num_experts: int):
    gate, bias = normal(num_experts, 64, seed=1, dtype=BF16), normal(num_experts, seed=2)

    def op(x: torch.Tensor):
        result = ops.route(x, gate, bias, top_k=3, scaling=1.5, normalize=True)
        return result.ids, result.weights, result.margin

    assert_rows_independent(op, normal(40, 64))


@MODES
@pytest.mark.parametrize("num_experts", [3, 16])
def test_moe(quantize: bool, dtype: torch.dtype, num_experts: int):
    dim, hidden = 64, 96
    w1, w3 = fp4_weight(num_experts, hidden, dim, seed=1), fp4_weight(num_experts, hidden, dim, seed=2)
    w2 = fp4_weight(num_experts, dim, hidden, seed=3)
    shared = (fp8_weight(hidden, dim, seed=4), fp8_weight(hidden, dim, seed=5), fp8_weight(dim, hidden, seed=6))
    rows = 70  # some experts get more than one tile
    ids = torch.stack([torch.randperm(num_experts)[:3] for _ in range(rows)])
    assert_rows_independent(
        lambda x, i, w: reference.moe(
            x, i, w, w1, w3, w2, shared, limit=10.0, quantize=quantize, act_dtype=dtype
        ),
        normal(rows, dim, dtype=dtype), ids, normal(rows, 3).abs(), sizes=(1, 17),
    )  # fmt: skip
    assert_rows_independent(
        lambda x, w: reference.expert_mlp(x, *shared, w, limit=10.0, quantize=quantize, act_dtype=dtype),
        normal(40, dim), normal(40, seed=1).abs(),
    )  # fmt: skip


def test_sum_experts(ops: PrimitiveOps):
    assert_rows_independent(ops.sum_experts, normal(40, 3, 33), normal(40, 33, seed=1))


def test_pool_pairs(ops: PrimitiveOps):
    assert_rows_independent(ops.pool_pairs, normal(40, 2, 33), normal(40, 2, 33, seed=1))


@pytest.mark.parametrize("heads", [*range(1, 11), 20, 33, 64])
@pytest.mark.parametrize("round_bf16", [False, True])
def test_index_scores(ops: PrimitiveOps, heads: int, round_bf16: bool):
    keys = normal(3, 300, 32, seed=1)
    group = torch.arange(40) * 3 // 40
    visible = torch.arange(40) * 300 // 39

    def op(q: torch.Tensor, w: torch.Tensor, g: torch.Tensor, v: torch.Tensor):
        return ops.index_scores(q, w, keys, g, v, scale=0.25, round_bf16=round_bf16)

    assert_rows_independent(op, normal(40, heads, 32), normal(40, heads, seed=2), group, visible)


def test_index_scores_do_not_depend_on_the_padding_of_keys(ops: PrimitiveOps):
    q, w, keys = normal(5, 4, 32), normal(5, 4, seed=1), normal(1, 200, 32, seed=2)
    group, visible = torch.zeros(5, dtype=torch.int64), torch.tensor([0, 1, 64, 65, 130])
    whole = ops.index_scores(q, w, keys, group, visible, scale=1.0, round_bf16=False)
    keys[0, 130:] = torch.nan
    part = ops.index_scores(q, w, keys[:, :130], group, visible, scale=1.0, round_bf16=False)
    assert torch.equal(part, whole[:, :130])
    assert bool((whole[:, 130:] == -torch.inf).all())


def test_selection(ops: PrimitiveOps):
    scores = normal(40, 200).mul(4).round()  # many ties
    visible = torch.arange(40) * 5
    scores.masked_fill_(torch.arange(200) >= visible[:, None], -torch.inf)
    assert_rows_independent(lambda s: ops.select_topk(s, 9), scores)
    assert_rows_independent(lambda s, v: ops.select_blocks(s, v, block_size=8, num_blocks=5), scores, visible)
    blocks = ops.select_blocks(scores, visible, block_size=8, num_blocks=5)
    assert_rows_independent(lambda s, b: ops.restrict_to_blocks(s, b, block_size=8), scores, blocks)


@pytest.mark.parametrize(
    ("heads", "dim", "width", "count"),
    [
        (8, 64, 32, 16),
        (4, 32, 16, 0),
        (1, 512, 16, 8),
        (4, 128, 1, 1),
        (1, 64, 1, 0),
        (1, 55, 5, 16),
        (2, 39, 16, 32),
        (3, 40, 7, 5),
        (2, 33, 5, 3),
        *((heads, dim, 16, 8) for heads in range(1, 11) for dim in (32, 64, 160)),
    ],
)
def test_attend_vectors(ops: PrimitiveOps, heads: int, dim: int, width: int, count: int):
    kv, sink = normal(90, dim, seed=1), normal(heads, seed=2)
    index = torch.randint(-1, 90, (40, width), generator=torch.Generator().manual_seed(3))
    entries, valid = (
        normal(40, count, dim, seed=4),
        torch.rand(40, count, generator=torch.Generator().manual_seed(5)) < 0.7,
    )

    def op(q: torch.Tensor, i: torch.Tensor, e: torch.Tensor, v: torch.Tensor):
        some = (e, v) if count else (None, None)
        return ops.attend_vectors(q, kv, i, *some, sink, scale=0.2, out_dtype=F32)

    assert_rows_independent(op, normal(40, heads, dim), index, entries, valid)


def test_absent_entries_equal_no_entries(ops: PrimitiveOps):
    kv, sink, q = normal(90, 64, seed=1), normal(4, seed=2), normal(20, 4, 64)
    index = torch.randint(-1, 90, (20, 16), generator=torch.Generator().manual_seed(3))
    junk, nobody = torch.full((20, 8, 64), torch.nan), torch.zeros(20, 8, dtype=torch.bool)
    without = ops.attend_vectors(q, kv, index, None, None, sink, scale=0.2, out_dtype=F32)
    absent = ops.attend_vectors(q, kv, index, junk, nobody, sink, scale=0.2, out_dtype=F32)
    assert torch.equal(without, absent)


def test_engram(ops: PrimitiveOps):
    constants = ngram_hash(1, layer_ids=(1, 2), vocab_size=50, compressed_vocab_size=40, max_ngram_size=3, num_heads=2)
    ids = torch.randint(0, 40, (40, 3), generator=torch.Generator().manual_seed(0))
    assert_rows_independent(lambda i: ops.ngram_rows(i, constants), ids)
    table = normal(constants.num_rows, 48).to(torch.float8_e4m3fn)
    scales = torch.randint(120, 124, (constants.num_rows, 2), dtype=torch.uint8)
    rows = ops.ngram_rows(ids, constants)
    assert_rows_independent(lambda r: ops.engram_lookup(r, table, scales), rows)
    q_weight, k_weight = normal(4, 72, seed=1), normal(4, 72, seed=2)
    assert_rows_independent(
        lambda s, k, v: ops.engram_gate(s, k, v, q_weight, k_weight, eps=1e-20),
        normal(40, 4, 72, dtype=BF16), normal(40, 4, 72, seed=3, dtype=BF16), normal(40, 72, seed=4, dtype=BF16),
    )  # fmt: skip


@pytest.mark.parametrize("rounding", list(KVRounding))
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dim", [128, 40])
def test_vectors(rounding: KVRounding, packed: bool, dim: int):
    layout = VectorFormat(dim, rounding, packed)
    x = normal(200, dim)
    assert_rows_independent(lambda v: reference.encode_vectors(v, layout), x)
    assert_rows_independent(lambda b: reference.decode_vectors(b, layout), reference.encode_vectors(x, layout))
    assert_rows_independent(lambda v: reference.round_vectors(v, rounding), x)


@pytest.mark.parametrize("kind", ["fp8_group32", "fp4_group32", "fp4_group16"])
def test_quantizers(kind: str):
    quantize, dequantize = getattr(reference, f"quantize_{kind}"), getattr(reference, f"dequantize_{kind}")
    x = normal(200, 72)
    assert_rows_independent(quantize, x)
    assert_rows_independent(dequantize, *quantize(x))


@pytest.mark.parametrize("shape", [(5, 64, 33), (6, 512, 16), (7, 40, 640), (10, 64, 1), (1, 4096, 1), (16, 4096, 24)])
def test_batches_of_one_product(shape: tuple[int, int, int]):
    """A batch of one has the bits of a larger batch, with and without an addend, whatever the threads."""
    m, k, n = shape
    a, b, add = normal(3, m, k), normal(3, k, n, seed=1), normal(3, m, n, seed=2)
    assert_rows_independent(bmm_rows, a, b, sizes=(1, 2))
    assert_rows_independent(bmm_rows, a, b, add, sizes=(1, 2))


def test_last_chunk_of_one_row(monkeypatch: pytest.MonkeyPatch):
    module = importlib.import_module("deepinfer.ops.reference.attend_vectors")
    monkeypatch.setattr(module, "_CHUNK_ELEMENTS", 4 * 16 * 64)
    kv, sink = normal(90, 64, seed=1), normal(6, seed=2)
    index = torch.randint(-1, 90, (9, 16), generator=torch.Generator().manual_seed(3))
    assert_rows_independent(
        lambda q, i: reference.attend_vectors(q, kv, i, None, None, sink, scale=0.2, out_dtype=F32),
        normal(9, 6, 64), index, sizes=(1, 2, 4, 5),
    )  # fmt: skip
