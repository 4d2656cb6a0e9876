"""Scores from packed keys: against the reference, repeatable, the same alone as together."""

from __future__ import annotations

import pytest
import torch

from tests.gpu.index.paged_rows import PagedRows, paged_rows, random_candidates
from tests.gpu.poison import poisoned_memory

pytestmark = pytest.mark.gpu
pytest.importorskip("tilelang")

from tilelang_ops.index.index_scores import PagedKeys, index_scores  # noqa: E402

SCALE = 0.0156
MODELS = [
    pytest.param({"heads": heads, "dim": dim, "entries_per_block": size}, id=f"{heads}x{dim}/{size}")
    for heads, dim in ((32, 128), (4, 64))
    for size in (64, 128)
]
STEPS = {
    "one": [(1, 1)],
    "decode": [(5, 1), (128, 1), (0, 1), (129, 1), (4097, 1), (1000, 6), (64, 1)],
    "prefill": [(700, 300), (333, 333), (2048, 77)],
    "long": [(70_001, 2)],
}


def scores_of(rows: PagedRows, candidates: torch.Tensor | None = None, **options: object) -> torch.Tensor:
    with poisoned_memory():
        return index_scores(
            rows.q.to(torch.bfloat16),
            rows.head_weights,
            PagedKeys(rows.data, rows.block_ids, rows.first_block),
            rows.num_visible,
            candidates,
            max_visible=rows.max_visible,
            scale=SCALE,
            **{"round_bf16": False, **options},
        )


def check(got: torch.Tensor, expected: torch.Tensor, bound: torch.Tensor) -> None:
    """Where `expected` is finite: equal within the bound."""
    finite = expected.isfinite()
    error = torch.where(finite, (got - expected).abs(), 0.0)
    wrong = ~(error <= bound)
    first = wrong.nonzero()[:1].tolist()
    assert not first, f"{tuple(got.shape)}: largest error {error.max():.3e}, bound {bound.max():.3e}, first at {first}"


@pytest.mark.parametrize("round_bf16", [False, True])
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())
@pytest.mark.parametrize("model", MODELS)
def test_every_visible_entry(device: torch.device, model: dict, step: list, round_bf16: bool) -> None:
    for _ in range(2):
        rows = paged_rows(device, step, **model)
        got = scores_of(rows, round_bf16=round_bf16)[:, : rows.max_visible]
        expected = rows.reference_scores(SCALE, round_bf16)
        check(got, expected, rows.error_bound(SCALE, round_bf16))
        seen = expected > -torch.inf
        again = scores_of(rows, round_bf16=round_bf16)[:, : rows.max_visible]
        assert torch.equal(again[seen], got[seen])
        if round_bf16:
            assert torch.equal(got[seen].to(torch.bfloat16).float(), got[seen])


@pytest.mark.parametrize("count", [1, 16, 61, 256])
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())
@pytest.mark.parametrize("model", [model for model in MODELS if model.values[0]["entries_per_block"] == 128])
def test_candidate_blocks(device: torch.device, model: dict, step: list, count: int) -> None:
    size = 8
    rows = paged_rows(device, step, **model)
    candidates = random_candidates(rows, count=count, block_size=size)
    got = scores_of(rows, candidates, block_size=size, least=-1)
    entry = (candidates.unsqueeze(2) * size + torch.arange(size, device=device)).flatten(1)
    entry = torch.where(candidates.repeat_interleave(size, 1) < 0, -1, entry)[:, : got.shape[1]]
    seen = (entry >= 0) & (entry < rows.num_visible.unsqueeze(1))
    full = rows.reference_scores(SCALE, False)
    expected = torch.where(seen, full.gather(1, entry.clamp(0, full.shape[1] - 1)), -torch.inf)
    used = expected.shape[1]
    assert torch.equal(got[:, :used].isneginf(), ~seen)
    assert got[:, used:].isneginf().all()
    check(got[:, :used], expected, rows.error_bound(SCALE, False))
    assert torch.equal(scores_of(rows, candidates, block_size=size, least=-1), got)


@pytest.mark.parametrize("model", MODELS)
def test_rows_alone(device: torch.device, model: dict) -> None:
    """A row's bits do not depend on the rows beside it."""
    step = [(900, 40), (300, 1), (5000, 6)] * 8
    rows = paged_rows(device, step, **model)
    together = scores_of(rows)
    for t in range(0, rows.num_rows, 29):
        keys = PagedKeys(rows.data, rows.block_ids, rows.first_block[t : t + 1])
        visible = rows.num_visible[t : t + 1]
        alone = index_scores(
            rows.q[t : t + 1].to(torch.bfloat16),
            rows.head_weights[t : t + 1],
            keys,
            visible,
            max_visible=rows.max_visible,
            scale=SCALE,
            round_bf16=False,
        )
        count = int(visible)
        assert torch.equal(alone[0, :count], together[t, :count]), t


def test_rows_left_out(device: torch.device) -> None:
    """`least` skips rows; the others are as before."""
    rows = paged_rows(device, [(100, 3), (600, 2)], heads=32, dim=128, entries_per_block=128)
    full, some = scores_of(rows), scores_of(rows, least=512)
    assert some[:3].isnan().all()  # the poison
    assert torch.equal(some[3:, :599], full[3:, :599])


def test_nan_key(device: torch.device) -> None:
    """A key with a NaN scale has a NaN score; its neighbours do not."""
    rows = paged_rows(device, [(300, 1)], heads=32, dim=128, entries_per_block=128)
    data = rows.data.clone()
    data[rows.block_ids[1], 7, 64 + 2] = 255
    keys = PagedKeys(data, rows.block_ids, rows.first_block)
    got = index_scores(
        rows.q.to(torch.bfloat16),
        rows.head_weights,
        keys,
        rows.num_visible,
        max_visible=300,
        scale=SCALE,
        round_bf16=True,
    )
    assert got[0, :300].isnan().nonzero().tolist() == [[128 + 7]]


def test_nothing(device: torch.device) -> None:
    rows = paged_rows(device, [], heads=4, dim=64, entries_per_block=128)
    assert scores_of(rows).shape == (0, 0)
    rows = paged_rows(device, [(0, 1)], heads=4, dim=64, entries_per_block=128)
    assert scores_of(rows).shape == (1, 0)
