"""Random operands of matrix products, and what a product is held to."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch

from deepinfer.core.quantized_weight import QuantizedWeight, WeightFormat
from tests.gpu.poison import poisoned_memory

_SEEDS = itertools.count(1)
ROUNDS = 3
FIRST_SEED = 7919


def generator(device: torch.device) -> torch.Generator:
    """A new seed at every call."""
    return torch.Generator(device).manual_seed(FIRST_SEED * next(_SEEDS))


def random_bf16(device: torch.device, *shape: int, spread: float = 1.0) -> torch.Tensor:
    """Values whose groups of 32 columns have different magnitudes."""
    rng = generator(device)
    x = torch.randn(shape, generator=rng, device=device) * spread
    groups = (*shape[:-1], -(-shape[-1] // 32))
    magnitudes = torch.exp2(torch.randint(-3, 4, groups, generator=rng, device=device).float())
    return (x * magnitudes.repeat_interleave(32, -1)[..., : shape[-1]]).to(torch.bfloat16)


def random_fp8_weight(device: torch.device, num_out: int, dim: int) -> QuantizedWeight:
    """Codes of all magnitudes; scales 2^-12 .. 2^-5."""
    rng = generator(device)
    codes = (torch.randn(num_out, dim, generator=rng, device=device) * 60).clamp(-448, 448).to(torch.float8_e4m3fn)
    shape = (-(-num_out // 32), -(-dim // 32))
    scales = torch.randint(115, 123, shape, generator=rng, device=device).to(torch.uint8)
    return QuantizedWeight(codes, scales, WeightFormat.FP8_BLOCK32)


def assert_product(run: Callable[[], torch.Tensor], want: torch.Tensor) -> None:
    """`run` gives `want` within the bound, in poisoned memory, and the same bits twice."""
    with poisoned_memory():
        got, again = run(), run()
    assert got.dtype is want.dtype and got.shape == want.shape, (got.dtype, got.shape, want.dtype, want.shape)
    if not got.numel():
        return
    assert got.isfinite().all(), f"{int((~got.isfinite()).sum())} of {got.numel()} are not finite"
    assert torch.equal(got, again), f"{int((got != again).sum())} of {got.numel()} elements moved between two runs"
    exact = want.double()
    difference = (got.double() - exact).abs()
    bound = 1e-4 if want.dtype is torch.float32 else 3e-3
    relative = float(difference.norm() / exact.norm())
    # One element: its rounding, and for sums near zero the error of their terms (rows and outputs have magnitudes).
    size = exact.square().mean(1, keepdim=True).sqrt() + exact.square().mean(0, keepdim=True).sqrt()
    allowed = bound * size + (0.0 if want.dtype is torch.float32 else 2.0**-7) * exact.abs()
    place = divmod(int((difference / allowed).argmax()), got.shape[1])
    assert relative <= bound and bool((difference <= allowed).all()), (
        f"relative error {relative:.2e} (bound {bound}), {int((difference > allowed).sum())} of {got.numel()} elements "
        f"off, worst at {place}: got {float(got[place])}, want {float(want[place])}"
    )
