"""Products of many rows by the matrix library, against the reference on the same inputs, and what recoding makes."""

from __future__ import annotations

import pytest
import torch

from deepinfer.ops import reference
from deepinfer.worker.captured_calls import CapturedCalls
from tests.gpu.gemm.products import ROUNDS, assert_product, generator, random_bf16, random_fp8_weight
from tests.gpu.graph_pool import pool_size
from tests.gpu.poison import poisoned_memory
from tests.support.wide_operands import wide_rows, wide_weight

pytest.importorskip("tilelang")

BF16 = torch.bfloat16
WEIGHTS = [(32768, 1280), (5120, 8192), (1280, 5120), (512, 5120), (25600, 6144), (4096, 1280), (5120, 15360)]
GROUPS, HEAD = 8, (512, 64)  # of an output projection of 8192x4096


@pytest.fixture(autouse=True)
def only_sm90(device: torch.device) -> None:
    if torch.cuda.get_device_capability(device) != (9, 0):
        pytest.skip("a form of SM90")


def first_rows(num_out: int, dim: int, num_groups: int = 1) -> int:
    from tilelang_ops.gemm.wide_rows import takes_wide

    return next(rows for rows in range(1, 5000) if takes_wide(rows, num_out, dim, num_groups, "sm_90a"))


def product(device: torch.device, rows: int, num_out: int, dim: int, batch_invariant: bool = False):
    """What runs it, and what it should give."""
    from deepinfer.ops.cuda.quantized_linear import quantized_linear

    x, weight = random_bf16(device, rows, dim), random_fp8_weight(device, num_out, dim)
    want = reference.quantized_linear(x, weight, quantize=True, out_dtype=BF16)
    return (lambda: quantized_linear(batch_invariant, x, weight, quantize=True, out_dtype=BF16)), want, x, weight


@pytest.mark.parametrize(("num_out", "dim"), WEIGHTS)
def test_around_the_first_number_of_rows(device: torch.device, num_out: int, dim: int):
    from tilelang_ops.gemm.wide_rows import multiply_wide

    first = first_rows(num_out, dim)
    for rows in (0, 1, first - 1, first, first + 1, first + 66):
        for _ in range(ROUNDS):
            run, want, x, weight = product(device, rows, num_out, dim)
            assert_product(run, want)
        if rows > 1:
            by_library = torch.equal(run(), multiply_wide(x, None, weight.codes, weight.scales, 1))
            assert by_library is (rows >= first), f"{rows} rows, the first that go to the library are {first}"


@pytest.mark.parametrize(
    ("rows", "num_out", "dim"),
    [(4099, 32768, 1280), (8192, 5120, 8192), (2049, 1280, 5120), (1030, 25600, 6144), (4097, 4096, 1280)]
    + [(1203, 1312, 2560), (259, 96, 5120), (70, 1312, 2560)],  # outputs that 128 does not divide
)
def test_large(device: torch.device, rows: int, num_out: int, dim: int):
    run, want, _, _ = product(device, rows, num_out, dim)
    assert_product(run, want)


@pytest.mark.parametrize("rows", [1024, 1025, 2047, 2113, 4099])
def test_groups(device: torch.device, rows: int):
    from deepinfer.ops.cuda.rotate_grouped_linear import rotate_grouped_linear

    assert first_rows(8192, 4096, GROUPS) == 1025
    heads, weight = random_bf16(device, rows, 64, HEAD[0]), random_fp8_weight(device, 8192, 4096)
    angle = torch.rand(rows, HEAD[1] // 2, generator=generator(device), device=device) * 6.3
    options = {"num_groups": GROUPS, "quantize": True, "out_dtype": BF16}
    rotated = reference.apply_rope(heads, angle.cos(), angle.sin(), inverse=True).view(rows, GROUPS, -1)
    want = reference.grouped_linear(rotated, weight, quantize=True, out_dtype=BF16)
    assert_product(lambda: rotate_grouped_linear(False, heads, angle.cos(), angle.sin(), weight, **options), want)


@pytest.mark.parametrize(("rows", "dim"), [(1, 128), (5, 640), (131, 1280), (258, 8192)])
def test_codes_of_rows(device: torch.device, rows: int, dim: int):
    from tilelang_ops.gemm.quantize_wide import quantize_wide

    x = random_bf16(device, rows, dim)
    x[0, :40] = 0.0
    with poisoned_memory():
        assert_same_codes(quantize_wide(x, None), wide_rows(x), rows)


@pytest.mark.parametrize("rows", [1, 37])
def test_codes_of_rotated_heads(device: torch.device, rows: int):
    from tilelang_ops.gemm.quantize_wide import quantize_wide

    heads = random_bf16(device, rows, 64, HEAD[0])
    angle = torch.rand(rows, HEAD[1] // 2, generator=generator(device), device=device) * 6.3
    rotated = reference.apply_rope(heads, angle.cos(), angle.sin(), inverse=True).flatten(1)
    with poisoned_memory():
        found = quantize_wide(heads.flatten(1), (angle.cos(), angle.sin(), HEAD[0]))
    assert_same_codes(found, wide_rows(rotated), rows)


@pytest.mark.parametrize(("num_out", "dim"), [(1312, 2560), (96, 640), (256, 128), (4096, 1280)])
def test_codes_of_weights(device: torch.device, num_out: int, dim: int):
    from tilelang_ops.gemm.recode_weight import recode_weight

    weight = random_fp8_weight(device, num_out, dim)
    with poisoned_memory():
        codes, scales = recode_weight(weight.codes, weight.scales)
    want_codes, want_scales = wide_weight(weight)
    assert torch.equal(scales, want_scales), f"{int((scales != want_scales).sum())} of {scales.numel()} scales differ"
    assert_codes(codes, want_codes)


def assert_same_codes(found: tuple[torch.Tensor, torch.Tensor], want: tuple[torch.Tensor, torch.Tensor], rows: int):
    """But for what lies behind the rows."""
    codes, scales = found
    assert len(codes) == scales.shape[1] == -(-rows // 4) * 4
    wrong = scales[:, :rows] != want[1]
    first = wrong.nonzero()[:1].tolist()
    assert not wrong.any(), f"{int(wrong.sum())} of {wrong.numel()} scales differ, first at {first}"
    assert_codes(codes[:rows], want[0])


def assert_codes(found: torch.Tensor, want: torch.Tensor) -> None:
    wrong = found.view(torch.uint8) != want.view(torch.uint8)
    first = wrong.nonzero()[:1].tolist()
    assert not wrong.any(), f"{int(wrong.sum())} of {wrong.numel()} codes differ, first at {first}"


def test_batch_invariant_products_stay_as_they_are(device: torch.device):
    from deepinfer.ops.cuda.linear import linear
    from deepinfer.ops.cuda.quantized_linear import quantized_linear

    rows, num_out, dim = 520, 1280, 5120
    run, want, x, weight = product(device, rows, num_out, dim, batch_invariant=True)
    assert_product(run, want)
    together, plain = run(), weight.codes.to(BF16)
    together_plain = linear(True, x, plain, torch.float32)
    for row in (0, 64, 519):
        alone = quantized_linear(True, x[row : row + 1], weight, quantize=True, out_dtype=BF16)
        assert torch.equal(alone[0], together[row]), f"row {row} alone"
        assert torch.equal(linear(True, x[row : row + 1], plain, torch.float32)[0], together_plain[row])


def test_a_nan_stays_in_its_row(device: torch.device):
    from deepinfer.ops.cuda.quantized_linear import quantized_linear

    for bad in (torch.nan, torch.inf):
        _, _, x, weight = product(device, 130, 512, 5120)
        x[2, 37] = bad
        out = quantized_linear(False, x, weight, quantize=True, out_dtype=BF16)
        others = torch.arange(130, device=device) != 2
        assert out[2].isnan().all() and out[others].isfinite().all()


def test_captured_products(device: torch.device):
    """Replays give what eager calls do, whatever happens to free memory between them; the library's own memory is not
    the pool's.
    """
    from deepinfer.ops.cuda.linear import linear

    run, _, _, _ = product(device, 300, 1280, 5120)
    x, plain = random_bf16(device, 300, 5120), random_bf16(device, 512, 5120, spread=0.05)
    works = {"scaled": run, "bf16": lambda: linear(False, x, plain, BF16)}
    works["float32"] = lambda: linear(False, x, plain, torch.float32)
    calls, wanted = CapturedCalls(device), {name: work() for name, work in works.items()}
    results = {name: torch.empty_like(value) for name, value in wanted.items()}
    steps = {name: (lambda name=name: results[name].copy_(works[name]())) for name in works}
    for _ in range(10):
        for name, step in steps.items():
            results[name].zero_()
            calls.run(name, step)
        torch.empty(2**26, dtype=torch.uint8, device=device).fill_(255)
        assert all(torch.equal(results[name], wanted[name]) for name in works)
    taken = pool_size(calls)
    print(f"\n{calls.num_graphs} graphs of products: {taken / 2**20:.1f} MiB")
    assert calls.num_graphs == 3 and taken < 2**25
