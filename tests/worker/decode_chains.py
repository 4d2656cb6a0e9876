"""Random chains of linked decode plans, and a plain reading of the rules that make them exact."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from deepinfer.core.decode_batch import DecodeBatch
from deepinfer.core.decode_fields import DecodeFields
from deepinfer.core.decode_rows import DecodeRows
from deepinfer.core.decode_sizes import DecodeSizes
from deepinfer.core.device_outcome import DeviceOutcome
from deepinfer.core.step_plan import ForwardPlan
from deepinfer.ops import Ops, reference
from deepinfer.worker.batch_builder import ngram_ids
from deepinfer.worker.decode_upload import DecodeUpload
from deepinfer.worker.scratch_plan import ScratchPlan
from deepinfer.worker.static_calls import StaticCalls

DRAFTS, LOOKBACK, SEQS = 3, 3, 6
BLOCKS, BLOCK_SIZE = 4, 16  # of a sequence
MAX_LEN = BLOCKS * BLOCK_SIZE
SIZES = DecodeSizes(SEQS, DRAFTS, LOOKBACK, MAX_LEN, SEQS * BLOCKS)


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
    plan = replace(
        plan,
        context_lens=np.array(contexts, np.int32),
        positions=(np.repeat(contexts, lengths) + np.arange(len(tokens)) - firsts).astype(np.int32),
        lookback_ids=lookback,
        max_lens=np.array(contexts, np.int32) + rng.integers(3, 9, len(contexts)).astype(np.int32),
        rate_factors=np.ones(DRAFTS, np.float32),
    )
    return with_slots(plan, rng.permutation(SEQS)[: len(contexts)])


def with_slots(plan: ScratchPlan, slots: np.ndarray) -> ScratchPlan:
    """The same with these state slots; each has blocks of its own."""
    blocks = slots[:, None] * BLOCKS + np.arange(BLOCKS)
    return replace(plan, state_slots=slots.astype(np.int32), block_ids=blocks.reshape(-1).astype(np.int32))


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
    slots = previous.state_slots[remap]
    slots[~is_matched] = np.setdiff1d(rng.permutation(SEQS), slots[is_matched])[: count - len(matched)]
    return replace(
        with_slots(plan, slots),
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


def first_plan(rng: np.random.Generator) -> ScratchPlan:
    """A chain's exact beginning."""
    count = int(rng.integers(1, SEQS + 1))
    return plan_of(rng, rng.integers(0, 30, count).tolist(), rng.integers(0, DRAFTS + 1, count).tolist())


def leave(outcome: Outcome, device: DeviceOutcome) -> None:
    """Bring what came of a step to where sampling leaves it."""
    count = len(outcome.tokens)
    tokens = [row + [-1] * (DRAFTS + 1 - len(row)) for row in outcome.tokens]
    device.tokens[:count].copy_(torch.tensor(tokens, dtype=torch.int64))
    device.num_tokens[:count].copy_(torch.tensor([len(row) for row in outcome.tokens], dtype=torch.int64))
    device.draft_ids[:count].copy_(torch.from_numpy(outcome.draft_ids))
    device.confidences[:count].copy_(torch.from_numpy(outcome.confidences))


class Resolver:
    """The static tensors of a worker; `calls` runs the backend's op that resolves plans on them."""

    def __init__(self, device: torch.device, calls: StaticCalls, ops: Ops = reference) -> None:
        self.upload = DecodeUpload(SIZES, DecodeFields.allocate(SIZES, device))
        self.outcome = DeviceOutcome.allocate(SEQS, DRAFTS, LOOKBACK, device)
        self._rows = DecodeRows.allocate(SIZES.max_rows, SEQS, device)
        self._parts = [
            torch.zeros(SIZES.max_rows, width, dtype=torch.int64, device=device) for width in (1, LOOKBACK + 1)
        ]
        self._calls = calls
        self._ops = ops

    def run(self, plan: ForwardPlan, num_rows: int) -> DecodeBatch:
        """The rows of a plan, padded to `num_rows`."""
        rows = self._rows.narrowed(num_rows, min(num_rows, SEQS))
        splits = bool(plan.previous_step_id >= 0 and plan.draft_caps.sum() > plan.num_draft_rows)
        self.upload.send(plan)
        self._calls.run((num_rows, splits), lambda: self._resolve(rows, splits))
        offsets, ngrams = (part[:num_rows] for part in self._parts)
        return DecodeBatch(rows, offsets[:, 0], ngrams, self.upload.target.block_ids, MAX_LEN)

    def _resolve(self, rows: DecodeRows, splits: bool) -> None:
        fields = self.upload.target.narrowed(len(rows.num_rows))
        offsets, ngrams = self._ops.resolve_rows(fields, self.outcome, rows, splits=splits)
        for part, values in zip(self._parts, (offsets[:, None], ngrams), strict=True):
            part[: len(values)].copy_(values)


def check(batch: DecodeBatch, plan: ForwardPlan) -> None:
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
        got = getattr(rows, name).cpu().numpy()
        assert got[:count].tolist() == values.tolist(), name
        assert (got[count:] == (-1 if name == "seqs" else values[-1])).all(), name
    grams = ngram_ids(plan, LOOKBACK + 1)
    assert batch.ngram_ids[:count].tolist() == grams.tolist()
    assert (batch.offsets[:count].cpu().numpy() == plan.positions - plan.context_lens[seq]).all()
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


def check_chain(seed: int, resolver: Resolver, num_links: int) -> None:
    """An exact step, then some that are linked, each to what came of the one before."""
    rng = np.random.default_rng(seed)
    exact = first_plan(rng)
    check(resolver.run(exact, int(rng.integers(len(exact.token_ids), SIZES.max_rows + 1))), exact)
    for _ in range(num_links):
        outcome = outcome_of(rng, exact)
        leave(outcome, resolver.outcome)
        plan = linked_plan(rng, exact)
        exact = resolved(plan, exact, outcome)
        least = len(plan.seq_ids) + plan.num_draft_rows
        check(resolver.run(plan, int(rng.integers(least, max(least, SIZES.max_rows) + 1))), exact)
