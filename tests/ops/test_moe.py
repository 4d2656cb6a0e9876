"""Experts against float64."""

from __future__ import annotations

import pytest
import torch

from deepinfer.core.cache_spec import KVRounding
from deepinfer.core.quantized_weight import QuantizedWeight
from deepinfer.ops import Ops, reference
from tests.ops.builders import dense_float64, fp4_weight, fp8_weight, normal
from tests.ops.tolerances import assert_close

DIM, HIDDEN, EXPERTS, TOP_K = 64, 96, 5, 3


def _round(x: torch.Tensor, quantize: bool) -> torch.Tensor:
    rounding = KVRounding.FP8_GROUP32 if quantize else KVRounding.NONE
    return reference.round_vectors(x.float(), rounding).double()


def _expert(x, w1, w3, w2, weight, limit: float, quantize: bool) -> torch.Tensor:
    gate = (x @ dense_float64(w1).T).clamp_max(limit)
    up = (x @ dense_float64(w3).T).clamp(-limit, limit)
    return _round(torch.nn.functional.silu(gate) * up * weight[:, None], quantize) @ dense_float64(w2).T


def _stacks():
    routed = (fp4_weight(EXPERTS, HIDDEN, DIM, seed=1), fp4_weight(EXPERTS, HIDDEN, DIM, seed=2))
    shared = (fp8_weight(HIDDEN, DIM, seed=4), fp8_weight(HIDDEN, DIM, seed=5), fp8_weight(DIM, HIDDEN, seed=6))
    return (*routed, fp4_weight(EXPERTS, DIM, HIDDEN, seed=3)), shared


def _matrices(stacks: tuple[QuantizedWeight, ...], expert: int) -> list[QuantizedWeight]:
    return [QuantizedWeight(stack.codes[expert], stack.scales[expert], stack.format) for stack in stacks]


@pytest.mark.parametrize("rows", [0, 1, 2, 17, 90])
@pytest.mark.parametrize("quantize", [False, True])
def test_moe(ops: Ops, rows: int, quantize: bool):
    stacks, shared = _stacks()
    x = normal(rows, DIM) * 2
    ids = torch.stack([torch.randperm(EXPERTS)[:TOP_K] for _ in range(rows)]) if rows else torch.zeros(0, 3).long()
    weights = normal(rows, TOP_K, seed=7).abs()
    got = ops.moe(x, ids, weights, *stacks, shared, limit=1.5, quantize=quantize, act_dtype=torch.float32)
    want = torch.zeros(rows, DIM, dtype=torch.float64)
    a = _round(x, quantize)
    for row in range(rows):
        for rank in range(TOP_K):
            e = int(ids[row, rank])
            one = slice(row, row + 1)
            want[one] += _expert(a[one], *_matrices(stacks, e), weights[one, rank].double(), 1.5, quantize)
    want += _expert(a, *shared, torch.ones(rows, dtype=torch.float64), 1.5, quantize)
    assert_close(got, want, "moe_quantized" if quantize else "moe")


@pytest.mark.parametrize("quantize", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_moe_is_the_sum_of_expert_mlps(quantize: bool, dtype: torch.dtype):
    """Bit by bit: the sum over ranks in order, then the shared expert, one rounding."""
    stacks, shared = _stacks()
    options = {"limit": 1.5, "quantize": quantize, "act_dtype": dtype}
    x, ids, weights = normal(20, DIM, dtype=dtype), torch.randint(0, EXPERTS, (20, TOP_K)), normal(20, TOP_K).abs()
    got = reference.moe(x, ids, weights, *stacks, shared, **options)
    a = _round(x, quantize).float()
    for row in range(20):
        one = a[row : row + 1]
        parts = [
            reference.expert_mlp(one, *_matrices(stacks, e), weights[row, rank : rank + 1], **options)
            for rank, e in enumerate(ids[row].tolist())
        ]
        total = (parts[0] + parts[1]) + parts[2]
        total = total + reference.expert_mlp(one, *shared, None, **options)
        assert torch.equal(got[row : row + 1], total.to(dtype))


def test_gate_is_clamped_from_above_only():
    identity = fp8_weight(32, 32)
    eye = torch.eye(32).to(torch.float8_e4m3fn)
    w = type(identity)(eye, torch.full((1, 1), 127, dtype=torch.uint8), identity.format)
    x = torch.tensor([[-20.0, 20.0, -3.0] + [0.0] * 29])
    got = reference.expert_mlp(x, w, w, w, None, limit=10.0, quantize=False, act_dtype=torch.float32)
    gate, up = x.double().clamp_max(10), x.double().clamp(-10, 10)
    torch.testing.assert_close(got.double(), torch.nn.functional.silu(gate) * up, atol=1e-5, rtol=1e-6)


def test_more_experts_than_a_chunk(monkeypatch: pytest.MonkeyPatch):
    (w1, w3, w2), shared = _stacks()
    options = {"limit": 10.0, "quantize": True, "act_dtype": torch.float32}
    x, ids, weights = normal(50, DIM), torch.randint(0, EXPERTS, (50, TOP_K)), normal(50, TOP_K).abs()
    whole = reference.moe(x, ids, weights, w1, w3, w2, shared, **options)
    monkeypatch.setattr("deepinfer.ops.reference.expert_matmul._CHUNK_ELEMENTS", 2 * DIM * HIDDEN)
    assert torch.equal(reference.moe(x, ids, weights, w1, w3, w2, shared, **options), whole)


@pytest.mark.parametrize("quantize", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_parts_add_up_to_the_whole(ops: Ops, quantize: bool, dtype: torch.dtype):
    """Bit by bit, wherever the parts are computed: each routed expert by itself, then the shared one."""
    stacks, shared = _stacks()
    x, rows = (normal(19, DIM) * 2).to(dtype), 19
    ids = torch.stack([torch.randperm(EXPERTS)[:TOP_K] for _ in range(rows)])
    weights = normal(rows, TOP_K, seed=7).abs()
    options = {"limit": 1.5, "quantize": quantize, "act_dtype": dtype}
    ones = [slice(rank, rank + 1) for rank in range(TOP_K)]
    parts = [ops.moe(x, ids[:, one], weights[:, one], *stacks, None, **options) for one in ones]
    last = ops.moe(x, ids[:, :0], weights[:, :0], *stacks, shared, **options)
    total = torch.zeros(rows, DIM)
    for part in (*parts, last):
        total += part
    whole = ops.moe(x, ids, weights, *stacks, shared, **options)
    assert torch.equal(total.to(dtype), whole)
    assert torch.equal(ops.sum_experts(torch.stack(parts, dim=1), last), whole)


@pytest.mark.parametrize("quantize", [False, True])
def test_picks_by_themselves(ops: Ops, quantize: bool):
    """Without a shared expert: what one pick gives, bit by bit, beside others and beside none (-1)."""
    stacks, _ = _stacks()
    x, weights = normal(7, DIM), normal(7, TOP_K, seed=7).abs()
    ids = torch.randint(-1, EXPERTS, (7, TOP_K))
    ids[3], ids[5, 1] = -1, 0
    options = {"limit": 1.5, "quantize": quantize, "act_dtype": torch.float32}
    got = ops.moe(x, ids, weights, *stacks, None, likely=15, **options).view(7, TOP_K, DIM)
    for row, pick in (ids >= 0).nonzero().tolist():
        one, place = slice(row, row + 1), slice(pick, pick + 1)
        alone = ops.moe(x[one], ids[one, place], weights[one, place], *stacks, None, **options)
        assert torch.equal(got[row, pick], alone[0])
    assert ops.moe(x, torch.full_like(ids, -1), weights, *stacks, None, **options).shape == (7 * TOP_K, DIM)
