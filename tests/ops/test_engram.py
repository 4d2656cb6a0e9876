"""Engram: hash constants, rows, lookup, gate."""

from __future__ import annotations

import pytest
import torch

from deepinfer.ops import Ops, ngram_hash
from tests.ops.builders import normal
from tests.ops.tolerances import assert_close

V41 = {
    "layer_ids": (1, 14),
    "vocab_size": 16_000_000,
    "compressed_vocab_size": 99092,
    "max_ngram_size": 4,
    "num_heads": 8,
}
PUBLISHED_ROWS = [
    (
        1,
        (5, 4, 3, 2),
        "22259 23259088 41371678 58272182 67624233 92075454 96301072 117124931 142558994 150547688 162989874 "
        "181633912 192289736 213618501 237612242 249163395 261693639 281928537 299139980 315746102 326816926 "
        "343423276 352597450 380883595",
    ),
    (
        14,
        (5, 4, 3, 2),
        "738671 18973607 47256193 55444531 75539291 83005306 103863108 114293665 129221833 159698187 "
        "173401037 186352206 207680784 209960455 235097182 243476921 259483245 282696594 300752079 308490318 "
        "320863922 351297015 353876790 382776724",
    ),
    (
        1,
        (99091, 12345, 777, 2),
        "12153694 30853388 42708902 50121856 73805582 94650699 98501409 114971103 141380713 150144131 "
        "172491105 176684982 198839886 222786606 226792347 248587195 263326867 282598727 289122131 311601438 "
        "333112673 343166261 360643473 370160213",
    ),
    (
        14,
        (1, 2, 2, 2),
        "10505031 24441816 41166078 52315658 73890979 80299715 98474523 123562968 135926974 155819816 "
        "170524818 178309260 205554919 208583864 234966981 254428696 261208473 278024842 303549726 314489076 "
        "322598938 340235359 359882920 378116450",
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def constants():
    return {layer: ngram_hash(layer, **V41) for layer in (1, 14)}


def test_published_constants(constants):
    assert constants[1].multipliers.tolist() == [76632096046245, 4839876093313, 35959672319349, 73987337458391]
    assert constants[14].multipliers.tolist() == [67716810739261, 51510806800915, 30921347202721, 82619226485591]
    assert (constants[1].num_rows, constants[14].num_rows) == (384006168, 384016682)
    assert constants[1].primes[0].tolist() == [
        16000057, 16000079, 16000081, 16000097, 16000121, 16000129, 16000133, 16000183,
    ]  # fmt: skip
    assert constants[14].primes[2, -1] == 16000889
    assert constants[1].offsets[0, :2].tolist() == [0, 16000057]


@pytest.mark.parametrize(("layer", "ngram", "rows"), PUBLISHED_ROWS)
def test_published_rows(ops: Ops, constants, layer: int, ngram: tuple[int, ...], rows: str):
    got = ops.ngram_rows(torch.tensor([ngram]), constants[layer])
    assert got.tolist() == [[int(row) for row in rows.split()]]


def test_rows_of_nothing_and_of_images(ops: Ops, constants):
    assert ops.ngram_rows(torch.zeros(0, 4, dtype=torch.int64), constants[1]).shape == (0, 24)
    assert ops.ngram_rows(torch.tensor([[-1, 4, 3, 2]]), constants[1]).tolist() == [[-1] * 24]


@pytest.mark.parametrize("rows", [0, 1, 20])
@pytest.mark.parametrize("dim", [64, 40])
def test_lookup(ops: Ops, rows: int, dim: int):
    codes = normal(30, dim).to(torch.float8_e4m3fn)
    scales = torch.randint(100, 130, (30, -(-dim // 32)), dtype=torch.uint8)
    index = torch.randint(-1, 30, (rows, 3), generator=torch.Generator().manual_seed(1))
    got = ops.engram_lookup(index, codes, scales)
    dense = codes.double() * 2.0 ** (scales.repeat_interleave(32, 1)[:, :dim].double() - 127)
    dense = torch.cat((dense, torch.zeros(1, dim)))  # row -1
    assert torch.equal(got.double(), dense[index].flatten(1))


def test_published_gates(ops: Ops):
    """One column: the normed stream and key are +-1, so dot = q_weight * k_weight."""
    for dot, gate in ((4.0, 0.88079708), (-4.0, 0.11920292), (0.0, 0.50025), (1e-8, 0.50025)):
        streams, keys = torch.ones(1, 1, 1), torch.ones(1, 1, 1)
        weight = torch.tensor([[dot]])
        got = ops.engram_gate(streams, keys, torch.ones(1, 1), weight, torch.ones(1, 1), eps=1e-20)
        assert float(got) - 1 == pytest.approx(gate, abs=3e-7)


@pytest.mark.parametrize("rows", [0, 1, 20])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gate(ops: Ops, rows: int, dtype: torch.dtype):
    streams, keys = normal(rows, 4, 50, dtype=dtype), normal(rows, 4, 50, seed=1, dtype=dtype)
    value, q_weight, k_weight = normal(rows, 50, seed=2, dtype=dtype), normal(4, 50, seed=3), normal(4, 50, seed=4)
    r, k = streams.double(), keys.double()
    norm_r = (r.square().mean(-1) + 1e-20).rsqrt()
    norm_k = (k.square().mean(-1) + 1e-20).rsqrt()
    dot = (r * q_weight.double() * k_weight.double() * k).sum(-1) * norm_r * norm_k / 50**0.5
    gate = torch.sigmoid(torch.copysign(dot.abs().clamp_min(1e-6).sqrt(), dot))
    want = r + gate[..., None] * value.double()[:, None]
    got = ops.engram_gate(streams, keys, value, q_weight, k_weight, eps=1e-20)
    assert got.dtype == dtype
    assert_close(got, want, "engram_gate" if dtype == torch.float32 else "bf16")
