"""Exact selection: bitwise equal to the reference on the same scores."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from deepinfer.ops.reference.restrict_to_blocks import restrict_to_blocks
from deepinfer.ops.reference.select_blocks import select_blocks as reference_blocks
from deepinfer.ops.reference.select_topk import select_topk as reference_topk
from tests.gpu.index.paged_rows import new_generator
from tests.gpu.poison import poisoned_memory

pytestmark = pytest.mark.gpu
pytest.importorskip("tilelang")

from tilelang_ops.index.block_maxima import block_maxima  # noqa: E402
from tilelang_ops.index.select_topk import select_best_blocks, select_candidates, select_topk  # noqa: E402


def _special(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Zeros of both signs, infinities and NaN among a few values."""
    values = torch.tensor([0.0, -0.0, torch.nan, torch.inf, -torch.inf, 1.0, -1.0, 1e-40, -1e-40], device=x.device)
    return values[torch.randint(0, len(values), x.shape, generator=generator, device=x.device)]


KINDS: dict[str, Callable[[torch.Tensor, torch.Generator], torch.Tensor]] = {
    "normal": lambda x, _: x,
    "bf16": lambda x, _: x.to(torch.bfloat16).float(),
    "negative": lambda x, _: -x.abs().to(torch.bfloat16).float(),
    "equal": lambda x, _: torch.full_like(x, 0.5),
    "few_values": lambda x, _: x.clamp(-1, 1).round(),
    "low_bits": lambda x, _: (x.view(torch.int32) & 1023 | 0x3F800000).view(torch.float32),
    "special": _special,
    "nan": lambda x, _: torch.full_like(x, torch.nan),
    "rising": lambda x, _: x.sort(dim=1).values,
    "falling": lambda x, _: x.sort(dim=1, descending=True).values,
}
SHAPES = [(1, 4), (3, 512), (5, 516), (7, 8192), (3, 16_388), (2, 100_000), (2, 1 << 20)]


def make_scores(
    device: torch.device, shape: tuple[int, int], kind: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Scores with garbage behind num_visible, the same with -inf there, and num_visible."""
    generator = new_generator(device)
    scores = KINDS[kind](torch.randn(shape, generator=generator, device=device), generator)
    visible = torch.randint(0, shape[1] + 1, shape[:1], generator=generator, device=device)
    visible[0] = shape[1]
    hidden = torch.arange(shape[1], device=device) >= visible.unsqueeze(1)
    return scores.masked_fill(hidden, 3e38), scores.masked_fill(hidden, -torch.inf), visible


def check(got: torch.Tensor, expected: torch.Tensor) -> None:
    wrong = (got != expected).nonzero()
    if wrong.numel():
        row, place = wrong[0].tolist()
        near = slice(max(0, place - 2), place + 3)
        raise AssertionError(
            f"{tuple(got.shape)}: {wrong.shape[0]} wrong, first at {row, place}: "
            f"{got[row, near].tolist()} instead of {expected[row, near].tolist()}"
        )


@pytest.mark.parametrize("k", [1, 32, 512])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_entries(device: torch.device, shape: tuple[int, int], kind: str, k: int) -> None:
    garbled, scores, visible = make_scores(device, shape, kind)
    everything = torch.arange(k, device=device).expand(shape[0], k)
    everything = torch.where(everything < visible.unsqueeze(1), everything, -1)
    expected = torch.where(visible.unsqueeze(1) <= k, everything, reference_topk(scores, k))
    with poisoned_memory():
        got = select_topk(garbled, visible, k)
    check(got, expected)
    assert torch.equal(select_topk(garbled, visible, k), got)


@pytest.mark.parametrize("num_blocks", [1, 16, 2048])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_blocks(device: torch.device, shape: tuple[int, int], kind: str, num_blocks: int) -> None:
    size = 8
    garbled, scores, visible = make_scores(device, shape, kind)
    expected = reference_blocks(scores, visible, block_size=size, num_blocks=num_blocks)
    with poisoned_memory():
        maxima = block_maxima(garbled, visible, max_visible=garbled.shape[1], block_size=size)
        got = select_best_blocks(maxima, visible, num_blocks, block_size=size)
    check(got, expected)
    if shape[1] > 512:
        some = select_best_blocks(maxima, visible, num_blocks, block_size=size, least=512)
        check(some, torch.where(visible.unsqueeze(1) > 512, expected, -1))


@pytest.mark.parametrize("k", [32, 512])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(3, 512), (7, 8192), (3, 16_384), (2, 1 << 20)], ids=str)
def test_candidates(device: torch.device, shape: tuple[int, int], kind: str, k: int) -> None:
    """Slots of candidate blocks lead to the same entries as scores that are hidden elsewhere."""
    size, count = 8, 100
    _, scores, visible = make_scores(device, shape, kind)
    blocks = reference_blocks(torch.randn_like(scores).masked_fill(scores.isneginf(), -torch.inf), visible,
                              block_size=size, num_blocks=count)  # fmt: skip
    everything = torch.arange(k, device=device).expand(shape[0], k)
    everything = torch.where(everything < visible.unsqueeze(1), everything, -1)
    restricted = reference_topk(restrict_to_blocks(scores, blocks, block_size=size), k)
    expected = torch.where(visible.unsqueeze(1) <= k, everything, restricted)
    entry = (blocks.unsqueeze(2) * size + torch.arange(size, device=device)).flatten(1)
    slots = scores.gather(1, entry.clamp(0, shape[1] - 1))
    slots = slots.masked_fill(blocks.repeat_interleave(size, 1) < 0, -torch.inf)
    with poisoned_memory():
        got = select_candidates(slots.contiguous(), visible, blocks, k, block_size=size)
    check(got, expected)


def test_nothing(device: torch.device) -> None:
    none = torch.empty(0, 64, device=device)
    assert select_topk(none, torch.empty(0, dtype=torch.int64, device=device), 32).shape == (0, 32)
