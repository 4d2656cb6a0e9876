"""Rows of linked plans, made on the device: what a plain reading of csrc/core/resolve_plan.hpp gives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

from deepinfer.core.decode_batch import DecodeBatch
from deepinfer.core.decode_rows import DecodeRows
from deepinfer.core.decode_sizes import DecodeSizes
from deepinfer.core.device_outcome import DeviceOutcome
from deepinfer.worker.batch_builder import ngram_ids
from deepinfer.worker.decode_fields import DecodeFields
from deepinfer.worker.decode_upload import DecodeUpload
from deepinfer.worker.resolve_rows import resolve_rows
from deepinfer.worker.scratch_plan import ScratchPlan

CPU = torch.device("cpu")
DRAFTS, LOOKBACK, SEQS, BLOCKS = 3, 3, 6, 4
SIZES = DecodeSizes(SEQS, DRAFTS, LOOKBACK, 200, SEQS * BLOCKS)


@dataclass
class Outcome:
    """What came of the sequences of a step, a row each."""

    tokens: list[list[int]]
    draft_ids: np.ndarray
    confidences: np.ndarray


def plan_of(rng: np.random.Generator, contexts: list[int], drafts: list[int]) -> ScratchPlan:
    """An exact plan of sequences with these contexts and numbers of drafts."""
    lengths = [1 + count for count in drafts]
    tokens = rng.integers(0, 50, sum(lengths)).astype(np.int32)
    plan = ScratchPlan.build(tokens, lengths, 0, BLOCKS, LOOKBACK)
    firsts = np.repeat(plan.cu_seqlens_q[:-1], lengths)
    lookback = rng.integers(0, 50, (len(contexts), LOOKBACK)).astype(np.int32)
    lookback[np.arange(LOOKBACK) >= np.array(contexts)[:, None]] = -1
    return replace(
        plan,
        context_lens=np.array(contexts, np.int32),
        positions=(np.repeat(contexts, lengths) + np.arange(len(tokens)) - firsts).astype(np.int32),
        lookback_ids=lookback,
        max_lens=np.array(contexts, np.int32) + rng.integers(3, 9, len(contexts)).astype(np.int32),
        state_slots=rng.permutation(SEQS)[: len(contexts)].astype(np.int32),
        rate_factors=np.ones(DRAFTS, np.float32),
    )


def outcome_of(rng: np.random.Generator, plan: ScratchPlan) -> Outcome:
    """Random tokens, at most one for each row; ids end anywhere; confidences are equal now and then, or no numbers."""
    count = len(plan.seq_ids)
    drafts = rng.integers(0, 50, (count, DRAFTS)).astype(np.int32)
    drafts[np.arange(DRAFTS) >= rng.integers(0, DRAFTS + 1, count)[:, None]] = -1
    confidences = rng.choice([0.25, 0.5, 0.7, 1.0, 1.5, -1.0, np.nan], (count, DRAFTS)).astype(np.float32)
    numbers = [rng.integers(0, length + 1) for length in np.diff(plan.cu_seqlens_q)]
    return Outcome([rng.integers(0, 50, n).tolist() for n in numbers], drafts, confidences)


def linked_plan(rng: np.random.Generator, previous: ScratchPlan) -> ScratchPlan:
    """Some sequences of the previous step, in another order, and new ones between them."""
    count = int(rng.integers(1, SEQS + 1))
    remap = np.full(count, -1, np.int32)
    matched = rng.permutation(len(previous.seq_ids))[: rng.integers(0, count + 1)]
    remap[rng.permutation(count)[: len(matched)]] = matched
    drafts = rng.integers(0, DRAFTS + 1, count)
    plan = plan_of(rng, rng.integers(0, 30, count).tolist(), drafts.tolist())
    lengths = np.diff(plan.cu_seqlens_q)
    is_matched = remap >= 0
    known = int(drafts[~is_matched].sum())
    return replace(
        plan,
        remap=remap,
        previous_step_id=7,
        context_lens=np.where(is_matched, 150, plan.context_lens).astype(np.int32),
        token_ids=np.where(np.repeat(is_matched, lengths), 0, plan.token_ids).astype(np.int32),
        lookback_ids=np.where(is_matched[:, None], -1, plan.lookback_ids).astype(np.int32),
        max_lens=np.where(is_matched, previous.max_lens[remap], plan.max_lens).astype(np.int32),
        draft_caps=np.maximum(rng.integers(0, DRAFTS + 1, count), np.where(is_matched, 0, drafts)).astype(np.int32),
        num_draft_rows=known + int(rng.integers(0, 2 * DRAFTS)),
        rate_factors=rng.choice([0.5, 1.0, 1.7], DRAFTS).astype(np.float32),
    )


def resolved(plan: ScratchPlan, previous: ScratchPlan, outcome: Outcome) -> ScratchPlan:
    """The rules, read aloud."""
    texts: list[tuple[int, list[int], list[int]]] = []  # context, look-back and newest token in order, usable drafts
    for i, j in enumerate(plan.remap.tolist()):
        if j < 0:
            rows = plan.token_ids[plan.cu_seqlens_q[i] : plan.cu_seqlens_q[i + 1]].tolist()
            texts.append((int(plan.context_lens[i]), [*plan.lookback_ids[i, ::-1].tolist(), rows[0]], rows[1:]))
            continue
        new = outcome.tokens[j]
        first = int(previous.token_ids[previous.cu_seqlens_q[j]])
        context = int(previous.context_lens[j]) + len(new)
        text = [*previous.lookback_ids[j, ::-1].tolist(), first, *new][-LOOKBACK - 1 :]
        ids = outcome.draft_ids[j].tolist()
        leading = ids.index(-1) if -1 in ids else DRAFTS
        usable = min(leading, plan.draft_caps[i], max(plan.max_lens[i] - (context + 1) - 1, 0))
        texts.append((context, text, ids[:usable] if new else []))
    shared = plan.num_draft_rows - sum(len(ids) for i, (_, _, ids) in enumerate(texts) if plan.remap[i] < 0)
    rates = []
    for i, j in enumerate(plan.remap.tolist()):
        product, limit = np.float32(1), np.float32(1)
        for k in range(len(texts[i][2]) if j >= 0 else 0):
            given = outcome.confidences[j, k]
            product *= np.float32(min(given, 1)) if given > 0 else np.float32(0)
            limit = min(limit, product * plan.rate_factors[k])
            rates.append((-limit, i, k))
    winners = [i for _, i, _ in sorted(rates)[:shared]]
    kept = [ids if plan.remap[i] < 0 else ids[: winners.count(i)] for i, (_, _, ids) in enumerate(texts)]
    lengths = [1 + len(ids) for ids in kept]
    tokens = [token for (_, text, _), ids in zip(texts, kept, strict=True) for token in (text[-1], *ids)]
    positions = [context + k for (context, _, _), n in zip(texts, lengths, strict=True) for k in range(n)]
    return replace(
        plan,
        cu_seqlens_q=np.cumsum([0, *lengths]).astype(np.int32),
        context_lens=np.array([context for context, _, _ in texts], np.int32),
        token_ids=np.array(tokens, np.int32),
        positions=np.array(positions, np.int32),
        lookback_ids=np.array([text[-2::-1] for _, text, _ in texts], np.int32),
    )


class Device:
    """The static tensors of a worker."""

    def __init__(self) -> None:
        self.fields = DecodeFields.allocate(SIZES, CPU)
        self.upload = DecodeUpload(SIZES, self.fields)
        self.outcome = DeviceOutcome.allocate(SEQS, DRAFTS, LOOKBACK, CPU)
        self.rows = DecodeRows.allocate(SIZES.max_rows, SEQS, CPU)

    def run(self, plan: Any, num_rows: int) -> DecodeBatch:
        num_seqs = min(num_rows, SEQS)
        self.upload.send(plan)
        splits = plan.previous_step_id >= 0 and plan.draft_caps.sum() > plan.num_draft_rows
        rows, fields = self.rows.narrowed(num_rows, num_seqs), self.fields.narrowed(num_seqs)
        return resolve_rows(fields, self.outcome, rows, splits=bool(splits), max_len=200)

    def sample(self, outcome: Outcome) -> None:
        """Leave what came of a step."""
        self.outcome.tokens.fill_(-1)
        for j, new in enumerate(outcome.tokens):
            self.outcome.num_tokens[j] = len(new)
            self.outcome.tokens[j, : len(new)] = torch.tensor(new, dtype=torch.int64)
        count = len(outcome.tokens)
        self.outcome.draft_ids[:count] = torch.from_numpy(outcome.draft_ids)
        self.outcome.confidences[:count] = torch.from_numpy(outcome.confidences)


def check(batch: DecodeBatch, plan: ScratchPlan) -> None:
    """The rows are those of an exact plan, and padding repeats the last of them."""
    rows, lengths = batch.rows, np.diff(plan.cu_seqlens_q)
    count, num_seqs = len(plan.token_ids), len(lengths)
    seq = np.repeat(np.arange(num_seqs), lengths)
    expected = {
        "token_ids": plan.token_ids,
        "positions": plan.positions,
        "state_slots": plan.state_slots[seq],
        "first_blocks": plan.cu_blocks[:-1][seq],
        "seqs": seq,
    }
    for name, values in expected.items():
        got = getattr(rows, name).numpy()
        assert got[:count].tolist() == values.tolist(), name
        assert (got[count:] == (-1 if name == "seqs" else values[-1])).all(), name
    grams = ngram_ids(plan, LOOKBACK + 1)
    assert batch.ngram_ids[:count].tolist() == grams.tolist()
    assert (batch.offsets[:count].numpy() == plan.positions - plan.context_lens[seq]).all()
    per_seq = {
        "first_rows": plan.cu_seqlens_q[:-1],
        "num_rows": lengths,
        "context_lens": plan.context_lens,
        "seq_slots": plan.state_slots,
    }
    for name, values in per_seq.items():
        assert getattr(rows, name)[:num_seqs].tolist() == values.tolist(), name
    assert not rows.num_rows[num_seqs:].any()
    assert batch.block_ids[: len(plan.block_ids)].tolist() == plan.block_ids.tolist()


@pytest.mark.parametrize("seed", range(60))
def test_linked_plans(seed: int) -> None:
    """A chain of steps: an exact one, then some that are linked, each to what came of the one before."""
    rng, device = np.random.default_rng(seed), Device()
    count = int(rng.integers(1, SEQS + 1))
    exact = plan_of(rng, rng.integers(0, 30, count).tolist(), rng.integers(0, DRAFTS + 1, count).tolist())
    check(device.run(exact, int(rng.integers(len(exact.token_ids), SIZES.max_rows + 1))), exact)
    for _ in range(4):
        outcome = outcome_of(rng, exact)
        device.sample(outcome)
        plan = linked_plan(rng, exact)
        exact = resolved(plan, exact, outcome)
        num_rows = len(plan.seq_ids) + plan.num_draft_rows
        check(device.run(plan, int(rng.integers(num_rows, max(num_rows, SIZES.max_rows) + 1))), exact)


def test_a_running_transfer_is_not_overwritten() -> None:
    """Two buffers in turn: what is filled is never what was sent last."""
    rng, device = np.random.default_rng(0), Device()
    first, second = (buffer.fields.words for buffer in device.upload._buffers)
    device.upload.send(plan_of(rng, [5], [0]))
    kept = first.clone()
    device.upload.send(plan_of(rng, [9, 4], [2, 1]))
    assert torch.equal(first, kept) and not torch.equal(second, first)
