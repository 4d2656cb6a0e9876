"""The indexer on its own: bounded memory, groups and chunks that change nothing, rounding, NaN."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch

from deepinfer.config.numerics import Numerics
from deepinfer.ops.composed import index_group
from deepinfer.ops.composed.index_group import IndexGroup
from deepinfer.ops.composed.select_entries import SCORE_BYTES_PER_CHUNK
from tests.ops.builders import normal
from tests.support.indexer_case import BLOCK, DIM, WIDTH, IndexerCase, RecordingOps

SELECTING = importlib.import_module("deepinfer.ops.composed.select_entries")  # not the function of that name


def _inputs(case: IndexerCase, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    rows = case.batch.positions.shape[0]
    return normal(rows, WIDTH, seed=seed).abs(), normal(rows, WIDTH, seed=seed + 1)


def test_a_long_sequence_beside_short_ones_costs_its_own_length_only() -> None:
    case = IndexerCase([16_000, *[5] * 31], [1] * 32)
    case.run(*_inputs(case))
    assert case.ops.calls == 2  # the short ones are one group
    assert case.ops.key_bytes == 16_001 * DIM * 4
    assert case.ops.score_bytes == 16_001 * 4


def test_scores_of_a_long_prefill_are_bounded() -> None:
    case = IndexerCase([6000], [2000])
    case.run(*_inputs(case))
    assert case.ops.score_bytes <= SCORE_BYTES_PER_CHUNK < 8000 * 2000 * 4


def test_keys_of_a_long_sequence_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    case = IndexerCase([900], [40])
    x, q_lora = _inputs(case)
    want = case.run(x, q_lora)
    monkeypatch.setattr(index_group, "KEY_BYTES_PER_GROUP", 4 * 64 * DIM * 4 + 1)
    case.ops = RecordingOps()
    got = case.run(x, q_lora)
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))
    assert case.ops.key_bytes == 4 * 64 * DIM * 4 < 940 * DIM * 4


def test_groups_and_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    case = IndexerCase([70, 0, 3, 200, 5, 64, 0], [1, 9, 1, 40, 3, 1, 2])
    x, q_lora = _inputs(case)
    want = case.run(x, q_lora)
    monkeypatch.setattr(SELECTING, "SCORE_BYTES_PER_CHUNK", 7 * 240 * 4)
    monkeypatch.setattr(index_group, "KEY_BYTES_PER_GROUP", 1)
    picks, candidates = case.run(x, q_lora)
    seen = case.batch.positions + 1 > case.topk
    assert torch.equal(picks, want[0]) and torch.equal(candidates[seen], want[1][seen])


def test_groups_cover_every_row_once() -> None:
    case = IndexerCase([70, 0, 3, 200, 5, 64, 0], [1, 9, 1, 40, 3, 1, 2])
    first_block = torch.from_numpy(case.batch.first_blocks[case.batch.row_seq])
    groups = IndexGroup.build_all(first_block, case.batch.positions + 1, 128)
    assert torch.cat([group.rows for group in groups]).sort().values.tolist() == list(range(57))
    assert sorted(group.num_entries for group in groups) == [9, 71, 240]
    for group in groups:
        assert torch.equal(group.first_block[group.row_group], first_block[group.rows])


@pytest.mark.parametrize(("numerics", "pick"), [(Numerics.FP32, 5), (Numerics.OFFICIAL, 1)])
def test_scores_are_rounded_to_bf16_in_official_only(numerics: Numerics, pick: int) -> None:
    """Entry 5 beats entry 1 by less than half a bf16 step; rounded, they tie and the lower number wins."""
    case = IndexerCase([BLOCK - 1], [1], topk=1, numerics=numerics)
    x, q_lora = _inputs(case)
    case.keys[:] = 0.0
    case.keys[0, 1] = normal(1, DIM, seed=9)[0]
    while not _positive(case, x, q_lora):
        case.keys[0, 1] = -case.keys[0, 1]
    case.keys[0, 5] = case.keys[0, 1] * (1 + 2.0**-12)
    assert case.run(x, q_lora)[0].tolist() == [[pick]]


def _positive(case: IndexerCase, x: torch.Tensor, q_lora: torch.Tensor) -> bool:
    return case.run(x, q_lora)[0].tolist() == [[1]]


def test_nan_keys_are_never_chosen_and_stay_in_their_sequence() -> None:
    case = IndexerCase([70, 30, 71], [1, 2, 1])
    x, q_lora = _inputs(case)
    clean = case.run(x, q_lora)[0]
    case.keys[9:13, 3] = torch.nan  # entries 3 and 11 of sequence 1 among them
    picks = case.run(x, q_lora)[0]
    assert torch.equal(picks[[0, 3]], clean[[0, 3]])
    assert not bool(((picks[1:3] == 3) | (picks[1:3] == 11)).any()) and bool((picks[1:3] >= 0).all())
    x[1], q_lora[1] = torch.nan, torch.nan
    picks = case.run(x, q_lora)[0]
    assert picks[1].tolist() == [-1] * case.topk
    assert torch.equal(picks[[0, 3]], clean[[0, 3]])


class _Sink:
    def __init__(self) -> None:
        self.seen: dict[str, torch.Tensor] = {}

    def record(self, name: str, tensor: torch.Tensor, rows: torch.Tensor | None) -> None:
        self.seen[name.rsplit(".", 1)[1]] = tensor.clone()


def test_capturing_changes_nothing_and_margins_are_gaps() -> None:
    case = IndexerCase([90], [1])
    x, q_lora = _inputs(case)
    want, sink = case.run(x, q_lora), _Sink()
    case.probe.attach(("*",), sink)
    scores: list[torch.Tensor] = []
    original: Any = case.ops.index_scores

    def keep(*args: Any, **options: Any) -> torch.Tensor:
        scores.append(original(*args, **options))
        return scores[-1]

    case.ops.index_scores = keep  # type: ignore[method-assign]
    got = case.run(x, q_lora)
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))
    (row,) = scores[0]
    ranked = row.sort(descending=True).values
    assert float(sink.seen["margin"]) == float(ranked[3] - ranked[4])
    best = sorted((float(row[i : i + 2].max()) for i in range(0, 90, 2)), reverse=True)  # entry 90 is the newest block
    assert float(sink.seen["block_margin"]) == pytest.approx(best[2] - best[3], abs=0)


@pytest.mark.parametrize(("num_visible", "makes_candidates"), [(8, False), (9, True)])
def test_candidates_that_leave_no_entry_out_are_not_made(num_visible: int, makes_candidates: bool) -> None:
    """Four entries are picked, and the candidate blocks hold eight."""
    case = IndexerCase([num_visible - 1], [1])
    x, q_lora = _inputs(case)
    picks, candidates = case.run(x, q_lora)
    assert (candidates is not None) == makes_candidates
    case.probe.attach(("*",), _Sink())  # whoever looks sees them all the same
    seen_picks, seen_candidates = case.run(x, q_lora)
    assert torch.equal(picks, seen_picks) and seen_candidates is not None
