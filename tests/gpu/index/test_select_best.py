"""Exact selection of bf16 scores: bitwise equal to the reference on the same scores."""

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
from tilelang_ops.index.select_best import select_best  # noqa: E402


def _special(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Zeros of both signs, infinities and subnormal numbers among a few values."""
    values = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, 1.0, -1.0, 1e-40, -1e-40], device=x.device)
    return values[torch.randint(0, len(values), x.shape, generator=generator, device=x.device)]


KINDS: dict[str, Callable[[torch.Tensor, torch.Generator], torch.Tensor]] = {
    "normal": lambda x, _: x,
    "negative": lambda x, _: -x.abs(),
    "equal": lambda x, _: torch.full_like(x, 0.5),
    "few_values": lambda x, _: x.clamp(-1, 1).round(),
    "special": _special,
    "nothing": lambda x, _: torch.full_like(x, -torch.inf),
    "rising": lambda x, _: x.sort(dim=1).values,
    "falling": lambda x, _: x.sort(dim=1, descending=True).values,
}
SHAPES = [(1, 8), (3, 512), (5, 520), (7, 8192), (3, 16_392), (3, 32_768), (2, 100_000), (2, 1 << 20)]


@pytest.fixture(autouse=True)
def only_sm90(device: torch.device) -> None:
    if torch.cuda.get_device_capability(device) != (9, 0):
        pytest.skip("kernels of SM90")


def make_scores(
    device: torch.device, shape: tuple[int, int], kind: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """bf16 scores with garbage behind num_visible, the same as float32 with -inf there, and num_visible."""
    generator = new_generator(device)
    scores = KINDS[kind](torch.randn(shape, generator=generator, device=device), generator).to(torch.bfloat16)
    visible = torch.randint(0, shape[1] + 1, shape[:1], generator=generator, device=device)
    visible[0] = shape[1]
    hidden = torch.arange(shape[1], device=device) >= visible.unsqueeze(1)
    return scores.masked_fill(hidden, torch.nan), scores.float().masked_fill(hidden, -torch.inf), visible


def check(got: torch.Tensor, expected: torch.Tensor) -> None:
    assert got.shape == expected.shape and got.dtype == expected.dtype
    wrong = (got != expected).nonzero()
    if wrong.numel():
        row, place = wrong[0].tolist()
        near = slice(max(0, place - 2), place + 3)
        pytest.fail(f"{len(wrong)} wrong, first {(row, place)}: {got[row, near]} instead of {expected[row, near]}")


@pytest.mark.parametrize("k", [1, 32, 512, 2048])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_entries(device: torch.device, kind: str, shape: tuple[int, int], k: int) -> None:
    scores, clean, visible = make_scores(device, shape, kind)
    expected = reference_topk(clean, k)
    takes_all = visible <= k
    everything = torch.arange(k, device=device).where(torch.arange(k, device=device) < visible.unsqueeze(1), -1)
    expected = torch.where(takes_all.unsqueeze(1), everything, expected)
    with poisoned_memory():
        got = select_best(scores, visible, k, num_columns=shape[1], least=k)
    check(got, expected)
    check(select_best(scores, visible, k, num_columns=shape[1], least=k), got)


@pytest.mark.parametrize("k", [1, 16, 256, 2048])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", ["normal", "few_values", "special", "nothing"])
def test_blocks(device: torch.device, kind: str, shape: tuple[int, int], k: int) -> None:
    size = 8
    scores, clean, visible = make_scores(device, shape, kind)
    with poisoned_memory():
        maxima = block_maxima(scores, visible, max_visible=shape[1], block_size=size)
        options = {"num_columns": -(-shape[1] // size), "least": 0, "block_size": size, "of_blocks": True}
        got = select_best(maxima, visible, k, **options)
    check(got, reference_blocks(clean, visible, block_size=size, num_blocks=k))


@pytest.mark.parametrize("count", [1, 61, 256, 2048])
@pytest.mark.parametrize("kind", ["normal", "few_values", "special"])
def test_candidates(device: torch.device, kind: str, count: int) -> None:
    """Columns are the entries of candidate blocks; every one of them is looked at."""
    size, k, num_rows, total = 8, 512, 5, 20_000
    scores, clean, visible = make_scores(device, (num_rows, total), kind)
    blocks = -(-total // size)
    chosen = torch.rand(num_rows, blocks, generator=new_generator(device), device=device).argsort(dim=1)[:, :count]
    candidates = chosen.sort(dim=1).values.contiguous()
    entry = (candidates.unsqueeze(2) * size + torch.arange(size, device=device)).flatten(1)
    gathered = clean.gather(1, entry).to(torch.bfloat16)
    expected = reference_topk(restrict_to_blocks(clean, candidates, block_size=size), k)
    few = visible <= k
    columns = {"num_columns": count * size, "least": k, "candidates": candidates, "block_size": size}
    with poisoned_memory():
        got = select_best(gathered, visible, k, **columns)
    check(got[~few], expected[~few])


def test_nothing(device: torch.device) -> None:
    none = torch.empty(0, dtype=torch.int64, device=device)
    scores = torch.empty(0, 8, dtype=torch.bfloat16, device=device)
    assert select_best(scores, none, 4, num_columns=8, least=4).shape == (0, 4)
