"""The whole choice against the reference: the same picks, except between scores that rounding can not tell apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from deepinfer.core.cache_tensors import VectorCache
from deepinfer.core.paged_entries import PagedEntries
from deepinfer.core.selection import Selection
from deepinfer.ops import reference
from tests.gpu.index.paged_rows import PagedRows, paged_rows, random_candidates
from tests.gpu.poison import poisoned_memory

pytestmark = pytest.mark.gpu
pytest.importorskip("tilelang")

from deepinfer.ops.cuda.select_entries import select_entries  # noqa: E402

SCALE = 0.0156
FULL = {"heads": 32, "dim": 128, "topk": 512, "num_blocks": 256, "entries_per_block": 128}
WIDE = FULL | {"dim": 256, "heads": 12, "entries_per_block": 64}
BUNDLED = {"heads": 4, "dim": 64, "topk": 32, "num_blocks": 16, "entries_per_block": 128}
STEPS = {
    "one": [(1, 1)],
    "few": [(20, 2), (32, 1)],
    "short": [(650, 2)],  # candidate blocks whose columns end in the first half of a step
    "decode": [(5, 1), (512, 1), (513, 1), (0, 1), (4097, 1), (10_000, 6), (64, 1)],
    "prefill": [(700, 300), (333, 333), (6000, 77)],
    "long": [(200_003, 2)],
}


def run(op: Any, rows: PagedRows, candidates: torch.Tensor | None, **options: Any) -> Selection:
    entries = PagedEntries(VectorCache(rows.data, rows.key_format), rows.block_ids, rows.first_block)
    return op(
        rows.q,
        rows.head_weights,
        entries,
        rows.num_visible,
        candidates,
        max_visible=rows.max_visible,
        scale=SCALE,
        round_bf16=True,
        block_size=8,
        **{"num_blocks": 0, "with_margins": False, **options},
    )


def check_choice(got: torch.Tensor, expected: torch.Tensor, values: torch.Tensor, bound: torch.Tensor) -> None:
    """Same number of choices; where they differ, the value of what was taken instead is within the bound."""
    assert torch.equal((got < 0).sum(1), (expected < 0).sum(1))
    assert torch.equal(got, torch.where(got < 0, values.shape[1], got).sort(dim=1).values.where(got >= 0, -1))
    for row in (got != expected).any(1).nonzero().squeeze(1).tolist():
        mine, theirs = set(got[row].tolist()) - {-1}, set(expected[row].tolist()) - {-1}
        assert len(mine) == int((got[row] >= 0).sum()), f"row {row}: an entry twice"
        extra, missing = sorted(mine - theirs), sorted(theirs - mine)
        gap = values[row, missing].max() - values[row, extra].min()
        limit = 2 * bound[row].max()
        assert gap <= limit, f"row {row}: {extra[:4]} instead of {missing[:4]}, gap {gap:.3e}, limit {limit:.3e}"


def step_rows(device: torch.device, model: dict[str, int], step: list[tuple[int, int]]) -> PagedRows:
    sizes = {name: model[name] for name in ("heads", "dim", "entries_per_block")}
    return paged_rows(device, step, **sizes)


@pytest.mark.parametrize("with_blocks", [False, True])
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())
@pytest.mark.parametrize(
    "model", [FULL, WIDE, BUNDLED, BUNDLED | {"entries_per_block": 64}], ids=["full", "wide", "mini", "mini64"]
)
def test_all_entries(device: torch.device, model: dict[str, int], step: list, with_blocks: bool) -> None:
    rows = step_rows(device, model, step)
    options = {"topk": model["topk"], "num_blocks": model["num_blocks"] if with_blocks else 0}
    expected = run(reference.select_entries, rows, None, **options)
    with poisoned_memory():
        got = run(select_entries, rows, None, **options)
    again = run(select_entries, rows, None, **options)
    assert torch.equal(again.picks, got.picks)
    scores = rows.reference_scores(SCALE, True)
    bound = rows.error_bound(SCALE, True)
    check_choice(got.picks, expected.picks, scores, bound)
    assert (got.blocks is not None) == with_blocks
    if got.blocks is not None and expected.blocks is not None:
        assert torch.equal(again.blocks, got.blocks)
        scored = rows.num_visible > model["topk"]
        padded = torch.nn.functional.pad(scores, (0, -scores.shape[1] % 8), value=-torch.inf)
        maxima = padded.unflatten(1, (-1, 8)).amax(2)
        check_choice(got.blocks[scored], expected.blocks[scored], maxima[scored], bound[scored])


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())
@pytest.mark.parametrize("model", [FULL, WIDE, BUNDLED], ids=["full", "wide", "mini"])
def test_candidates(device: torch.device, model: dict[str, int], step: list) -> None:
    rows = step_rows(device, model, step)
    candidates = random_candidates(rows, count=model["num_blocks"], block_size=8)
    expected = run(reference.select_entries, rows, candidates, topk=model["topk"])
    with poisoned_memory():
        got = run(select_entries, rows, candidates, topk=model["topk"])
    scores = rows.reference_scores(SCALE, True)
    check_choice(got.picks, expected.picks, scores, rows.error_bound(SCALE, True))
    assert torch.equal(run(select_entries, rows, candidates, topk=model["topk"]).picks, got.picks)


@pytest.mark.parametrize("restricted", [False, True])
@pytest.mark.parametrize("step", ["one", "few", "short", "decode"])
@pytest.mark.parametrize("model", [FULL, BUNDLED], ids=["full", "mini"])
def test_margins(device: torch.device, model: dict[str, int], step: str, restricted: bool) -> None:
    """Margins like the reference's, and the picks of a call without them."""
    rows = step_rows(device, model, STEPS[step])
    candidates = random_candidates(rows, count=model["num_blocks"], block_size=8) if restricted else None
    options = {"topk": model["topk"], "num_blocks": 0 if restricted else model["num_blocks"]}
    expected = run(reference.select_entries, rows, candidates, with_margins=True, **options)
    got = run(select_entries, rows, candidates, with_margins=True, **options)
    assert torch.equal(got.picks, run(select_entries, rows, candidates, **options).picks)
    limit = 2 * rows.error_bound(SCALE, True).amax(1)
    names = ["margin"] if restricted else ["margin", "block_margin"]
    for name in names:
        mine, theirs = getattr(got, name), getattr(expected, name)
        assert torch.equal(mine.isposinf(), theirs.isposinf()), name
        wrong = ((mine - theirs).abs() > limit) & theirs.isfinite()
        assert not wrong.any(), f"{name}: {mine[wrong].tolist()} instead of {theirs[wrong].tolist()}"


def test_rows_alone(device: torch.device) -> None:
    """A row's picks and blocks are the same alone and among others."""
    rows = step_rows(device, FULL, [(900, 20), (5000, 6), (700, 1)] * 4)
    options = {"topk": 512, "num_blocks": 256}
    together = run(select_entries, rows, None, **options)
    for t in range(0, rows.num_rows, 13):
        where = slice(t, t + 1)
        alone = replace(
            rows,
            q=rows.q[where],
            head_weights=rows.head_weights[where],
            first_block=rows.first_block[where],
            num_visible=rows.num_visible[where],
        )
        one = run(select_entries, alone, None, **options)
        assert torch.equal(one.picks, together.picks[where]), t
        assert one.blocks is not None and together.blocks is not None
        if int(rows.num_visible[t]) > 512:
            assert torch.equal(one.blocks, together.blocks[where]), t


def test_nothing(device: torch.device) -> None:
    rows = step_rows(device, BUNDLED, [])
    assert run(select_entries, rows, None, topk=32, num_blocks=16).picks.shape == (0, 32)
    rows = step_rows(device, BUNDLED, [(0, 1)])
    assert (run(select_entries, rows, None, topk=32).picks == -1).all()
