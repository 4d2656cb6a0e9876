"""The kernels that make and map a decode step's rows beside the reference, on random steps of any size."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch

from deepinfer.core.decode_batch import DecodeBatch
from deepinfer.core.decode_fields import DecodeFields
from deepinfer.core.decode_rows import DecodeRows
from deepinfer.core.decode_sizes import DecodeSizes
from deepinfer.core.device_outcome import DeviceOutcome
from deepinfer.core.step_geometry import StepGeometry
from deepinfer.ops import Ops, reference
from tests.gpu.poison import poisoned_memory


def check_resolved(seed: int, sizes: tuple[int, int, int, int], ops: Ops, device: torch.device) -> None:
    """Everything that `resolve_rows` writes, padding included, with and without a ranking.

    Args:
        sizes: sequences, drafts, look-back, rows.
    """
    count, num_drafts, num_lookback, num_rows = sizes
    rng = np.random.default_rng(seed)
    for splits in (False, True)[: 1 + bool(num_drafts)]:
        given = _fields(rng, (count, num_drafts, num_lookback, num_rows), device)
        before = _outcome(rng, count, given, device)
        states = []
        for judged in (reference, ops):
            outcome = DeviceOutcome(**{f.name: getattr(before, f.name).clone() for f in fields(before)})
            rows = DecodeRows(**{f.name: torch.full((num_rows,), -77, device=device) for f in fields(DecodeRows)})
            rows = rows.narrowed(num_rows, count)
            with poisoned_memory():
                found = judged.resolve_rows(given, outcome, rows, splits=splits)
            outcome.confidences.nan_to_num_(0.0)
            states.append([*found, *_tensors(outcome), *_tensors(rows)])
        for number, (want, got) in enumerate(zip(*states, strict=True)):
            assert want.dtype == got.dtype and torch.equal(want, got), (seed, sizes, splits, number, want, got)


def _fields(rng: np.random.Generator, sizes: tuple[int, int, int, int], device: torch.device) -> DecodeFields:
    """Sequences that fit into the rows; the last ones may be padding."""
    count, num_drafts, num_lookback, num_rows = sizes
    given = DecodeFields.allocate(DecodeSizes(count, num_drafts, num_lookback, 500, 4 * count), device)

    def fill(values: torch.Tensor, numbers: np.ndarray) -> None:
        values.copy_(torch.from_numpy(np.asarray(numbers)))

    num_real = int(rng.choice([count, count, rng.integers(0, count + 1)]))
    room = num_rows - count
    lengths = np.ones(count, np.int64)
    for s in range(num_real):
        more = int(rng.integers(0, min(num_drafts, room) + 1))
        lengths[s], room = 1 + more, room - more
    lengths[num_real:] = 0
    fill(given.num_rows, lengths)
    matched = rng.permutation(count)
    fill(given.remap, np.where(rng.random(count) < 0.6, matched, -1))
    for name, low, high in (("context_lens", 0, 60), ("max_lens", 3, 70), ("draft_caps", 0, num_drafts + 1)):
        fill(getattr(given, name), rng.integers(low, high, count))
    fill(given.state_slots, rng.permutation(count))
    fill(given.first_blocks, np.arange(count) * 4)
    lines = rng.integers(0, 50, given.lines.shape)
    fill(given.lines, lines)
    fill(given.rate_factors, rng.choice([0.5, 1.0, 1.7], num_drafts).astype(np.float32))
    # What continues may want every draft: then only the ranking, or the caps, make it fit.
    fill(given.num_draft_rows, [room + int((lengths - 1).clip(0).sum())])
    is_matched = given.remap >= 0
    given.draft_caps.copy_(torch.where(is_matched, torch.minimum(given.draft_caps, given.num_rows - 1), 0).clamp(min=0))
    return given


def _outcome(rng: np.random.Generator, count: int, given: DecodeFields, device: torch.device) -> DeviceOutcome:
    num_drafts, num_lookback = len(given.rate_factors), given.lines.shape[1] - 1 - len(given.rate_factors)
    outcome = DeviceOutcome.allocate(count, num_drafts, num_lookback, device)
    numbers = torch.from_numpy(rng.integers(0, num_drafts + 2, count)).to(device)
    tokens = torch.from_numpy(rng.integers(0, 50, (count, num_drafts + 1))).to(device)
    drafts = torch.from_numpy(rng.integers(-1, 6, (count, num_drafts))).to(device)
    values = np.array([0.25, 0.5, 0.7, 1.0, 1.5, -1.0, np.nan, np.inf, -np.inf], np.float32)
    outcome.num_tokens.copy_(numbers)
    outcome.tokens.copy_(torch.where(torch.arange(num_drafts + 1, device=device) < numbers[:, None], tokens, -1))
    outcome.draft_ids.copy_(drafts)
    outcome.confidences.copy_(torch.from_numpy(rng.choice(values, (count, num_drafts))))
    outcome.context_lens.copy_(torch.from_numpy(rng.integers(0, 60, count)))
    outcome.first_tokens.copy_(torch.from_numpy(rng.integers(0, 50, count)))
    outcome.lookback.copy_(torch.from_numpy(rng.integers(-1, 50, (count, num_lookback))))
    return outcome


def check_maps(seed: int, count: int, ops: Ops, device: torch.device) -> None:
    """Every map of `count` rows, some of them padding, for models with and without Engram and compressed entries."""
    rng = np.random.default_rng(seed)
    max_len, block_size, num_slots = 192, 16, 7
    per_seq = max_len // block_size

    def integers(low: int, high: int, *shape: int) -> torch.Tensor:
        return torch.from_numpy(rng.integers(low, high, shape)).to(device)

    positions, slots = integers(0, max_len, count), integers(0, num_slots, count)
    positions[: count // 4] = integers(0, 3, count // 4)
    rows = replace(
        DecodeRows.allocate(count, count, device),
        positions=positions,
        state_slots=slots,
        first_blocks=slots * per_seq,
        seqs=integers(-1, 3, count),
    )
    ropes = [torch.randn(max_len, half, device=device) for half in (8, 8, 8, 8)]
    for entry_rings, num_grams, topk, ring in (
        (((1, 1), (2, 5)), 4, 64, 37),
        (((1, 1), (2, 8)), 0, 192, 40),
        (((2, 3),), 3, 100, 33),
        ((), 2, 5, 300),
    ):
        batch = DecodeBatch(
            rows,
            integers(0, 3, count),
            integers(-1, 50, count, num_grams),
            integers(0, 900, num_slots * per_seq),
            max_len,
        )
        geometry = StepGeometry(33 if ring < 300 else 290, ring, block_size, entry_rings, max_len, topk)
        vocab = (integers(0, 40, 50), 3) if num_grams else None
        pairs = ((ropes[0], ropes[1]), (ropes[2], ropes[3]))
        want = reference.map_rows(batch, geometry, pairs, vocab)
        with poisoned_memory():
            got = ops.map_rows(batch, geometry, pairs, vocab)
        assert want.entries.keys() == got.entries.keys() == dict(entry_rings).keys()
        for mine, theirs in [(got, want), *((got.entries[ratio], want.entries[ratio]) for ratio in want.entries)]:
            for field in fields(theirs):
                if field.name != "entries":
                    _assert_same(getattr(mine, field.name), getattr(theirs, field.name), (seed, count, field.name))


def _assert_same(got: Any, want: Any, where: object) -> None:
    if isinstance(want, tuple):
        for mine, theirs in zip(got, want, strict=True):
            _assert_same(mine, theirs, where)
    elif want is None:
        assert got is None, where
    else:
        assert got.dtype == want.dtype and got.is_contiguous() and torch.equal(got, want), (where, got, want)


def _tensors(record: Any) -> list[torch.Tensor]:
    return [getattr(record, field.name) for field in fields(record)]
