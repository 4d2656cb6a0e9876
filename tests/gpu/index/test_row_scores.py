"""bf16 scores by row and by tile: against the reference, the same bits either way, repeatable."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.gpu.index.paged_rows import PagedRows, paged_rows, random_candidates
from tests.gpu.poison import poisoned_memory

pytestmark = pytest.mark.gpu
pytest.importorskip("tilelang")

from tilelang_ops.index.arrange_queries import arrange_queries  # noqa: E402
from tilelang_ops.index.index_scores import PagedKeys  # noqa: E402
from tilelang_ops.index.row_scores import row_scores  # noqa: E402
from tilelang_ops.index.tile_scores import tile_scores  # noqa: E402

SCALE = 0.0156
MODELS = [
    pytest.param({"heads": heads, "dim": dim, "entries_per_block": size}, id=f"{heads}x{dim}/{size}")
    for heads, dim, size in ((32, 128, 128), (32, 128, 64), (12, 128, 128), (32, 256, 128))
]
STEPS = {
    "one": [(1, 1)],
    "decode": [(5, 1), (128, 1), (0, 1), (129, 1), (4097, 1), (1000, 6), (64, 1)],
    "prefill": [(700, 300), (333, 333), (2048, 77)],
    "long": [(70_001, 2)],
}
# Two rows share a product: pairs of one and of two sequences, a last row alone, rows that see no tile of their pair's.
PAIRS = {
    "one row": [(4097, 1)],
    "two of one": [(515, 2)],
    "two of two": [(600, 1), (2049, 1)],
    "36 of three, three": [(1000 + 700 * (i % 3), 3) for i in range(12)],
    "37, one apart": [(900, 1), *[(300 + 1111 * (i % 2), 3) for i in range(12)]],
    "turns": [(256 * (i % 3) + 1, 1) for i in range(37)],
}


@pytest.fixture(autouse=True)
def only_sm90(device: torch.device) -> None:
    if torch.cuda.get_device_capability(device) != (9, 0):
        pytest.skip("kernels of SM90")


def scores_of(form: Callable[..., torch.Tensor], rows: PagedRows, **options: object) -> torch.Tensor:
    keys = PagedKeys(rows.data, rows.block_ids, rows.first_block)
    with poisoned_memory():
        q = arrange_queries(rows.q)
        options = {"max_visible": rows.max_visible, "scale": SCALE, "least": -1, **options}
        return form(q, rows.head_weights, keys, rows.num_visible, **options)


def check(got: torch.Tensor, expected: torch.Tensor, bound: torch.Tensor) -> None:
    """-inf where `expected` is, else equal within the bound."""
    seen = expected > -torch.inf
    wrong = torch.where(seen, ~((got.float() - expected).abs() <= bound), False)
    first = wrong.nonzero()[:1].tolist()
    assert not first, (
        f"{tuple(got.shape)}: {got[wrong][:4].tolist()} instead of {expected[wrong][:4].tolist()} at {first}"
    )


@pytest.mark.parametrize("form", [row_scores, tile_scores])
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())
@pytest.mark.parametrize("model", MODELS)
def test_every_visible_entry(device: torch.device, model: dict, step: list, form: Callable[..., torch.Tensor]) -> None:
    for _ in range(2):
        rows = paged_rows(device, step, **model)
        got = scores_of(form, rows)[:, : rows.max_visible]
        expected = rows.reference_scores(SCALE, True)
        check(got, expected, rows.error_bound(SCALE, True))
        seen = expected > -torch.inf
        assert torch.equal(scores_of(form, rows)[:, : rows.max_visible][seen], got[seen])
        other = row_scores if form is tile_scores else tile_scores
        assert torch.equal(scores_of(other, rows)[:, : rows.max_visible][seen], got[seen])


@pytest.mark.parametrize("least", [-1, 400])
@pytest.mark.parametrize("step", PAIRS.values(), ids=PAIRS.keys())
@pytest.mark.parametrize("model", MODELS[:3])
def test_two_rows_share_a_product(device: torch.device, model: dict, step: list, least: int) -> None:
    """The bits of `row_scores`, where any row of a pair may be left out, and nothing is written to such a row."""
    rows = paged_rows(device, step, **model)
    expected = scores_of(row_scores, rows, least=least)[:, : rows.max_visible]
    got = scores_of(tile_scores, rows, least=least)[:, : rows.max_visible]
    places = torch.arange(rows.max_visible, device=device)
    visible = rows.num_visible.unsqueeze(1)
    seen = (places < visible) & (visible > least)
    assert torch.equal(got[seen], expected[seen]), (got != expected).logical_and(seen).nonzero()[:1].tolist()
    assert got[(visible <= least).squeeze(1)].isnan().all()  # the poison


@pytest.mark.parametrize("count", [1, 16, 61, 256])
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())
@pytest.mark.parametrize("model", MODELS)
def test_candidate_blocks(device: torch.device, model: dict, step: list, count: int) -> None:
    size = 8
    rows = paged_rows(device, step, **model)
    candidates = random_candidates(rows, count=count, block_size=size)
    used = min(count, -(-rows.max_visible // size)) * size
    got = scores_of(row_scores, rows, candidates=candidates, block_size=size)[:, :used]
    entry = (candidates.unsqueeze(2) * size + torch.arange(size, device=device)).flatten(1)
    entry = torch.where(candidates.repeat_interleave(size, 1) < 0, -1, entry)[:, :used]
    seen = (entry >= 0) & (entry < rows.num_visible.unsqueeze(1))
    full, bound = rows.reference_scores(SCALE, True), rows.error_bound(SCALE, True)
    place = entry.clamp(0, full.shape[1] - 1)
    assert torch.equal(got.isneginf(), ~seen)
    check(got, torch.where(seen, full.gather(1, place), -torch.inf), bound.gather(1, place))
    alike = scores_of(row_scores, rows)
    assert torch.equal(got[seen], alike.gather(1, place)[seen])  # the bits of a score among all entries


def test_nan_key(device: torch.device) -> None:
    """A key with a NaN scale is never chosen; its neighbours have their scores."""
    rows = paged_rows(device, [(300, 1)], heads=32, dim=128, entries_per_block=128)
    before = scores_of(row_scores, rows)
    rows.data[rows.block_ids[1], 7, 64 + 2] = 255
    for form in (row_scores, tile_scores):
        got = scores_of(form, rows)
        assert got[0, :300].isneginf().nonzero().tolist() == [[128 + 7]]
        changed = (got[0, :300] != before[0, :300]).nonzero().flatten().tolist()
        assert changed == [128 + 7]


@pytest.mark.parametrize("form", [row_scores, tile_scores])
def test_rows_left_out(device: torch.device, form: Callable[..., torch.Tensor]) -> None:
    """`least` skips rows; the others are as before."""
    rows = paged_rows(device, [(100, 3), (600, 2)], heads=32, dim=128, entries_per_block=128)
    full, some = scores_of(form, rows), scores_of(form, rows, least=512)
    assert some[:3].isnan().all()  # the poison
    assert torch.equal(some[3:, :599], full[3:, :599])


@pytest.mark.parametrize("form", [row_scores, tile_scores])
def test_nothing(device: torch.device, form: Callable[..., torch.Tensor]) -> None:
    model = {"heads": 32, "dim": 128, "entries_per_block": 128}
    assert scores_of(form, paged_rows(device, [], **model)).shape == (0, 0)
    assert scores_of(form, paged_rows(device, [(0, 1)], **model)).shape == (1, 0)
