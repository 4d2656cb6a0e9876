"""Decode steps sampled on the device against the host's way row by row, with tables for both models."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from deepinfer.core.decode_rows import DecodeRows
from deepinfer.core.device_outcome import DeviceOutcome
from deepinfer.core.draft_anchors import DraftAnchors
from deepinfer.core.probe import Probe
from deepinfer.models.deepseek_v41.draft_model import DraftBlock
from deepinfer.sampling.draft_memory import DraftMemory
from deepinfer.worker.draft_proposer import DraftProposer
from deepinfer.worker.token_chooser import TokenChooser
from deepinfer.worker.torch_draft_executor import TorchDraftExecutor
from tests.sampling.requests import make_request, make_sampler

NUM_DRAFTS = 3
TEMPERATURES = (1.0, 0.7, 1.9)
PADDING = 3  # ids that the tokenizer does not have
CPU = torch.device("cpu")


class Tables:
    """A target and a draft model whose logits are sums of whole numbers: the same on every device.

    The draft model is the target with some noise, so that drafts are right now and then.
    """

    def __init__(self, seed: int, vocab: int, device: torch.device) -> None:
        gen = torch.Generator().manual_seed(seed)
        after = torch.randint(-3, 4, (vocab, vocab), generator=gen)
        at = torch.randint(-2, 3, (64, vocab), generator=gen)
        noise = torch.randint(-1, 2, (vocab, vocab), generator=gen)
        self._after, self._at, self._noise = (table.float().to(device) for table in (after, at, noise))
        self._score = torch.randint(-9, 10, (vocab,), generator=gen).float().to(device) / 4

    def target(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """float32 [n, V]; a token now and then has a row that cannot be sampled."""
        logits = self._after[tokens] + self._at[positions % 64]
        return torch.where((tokens[:, None] == 5) & (positions[:, None] % 3 == 0), torch.nan, logits)

    def forward(self, anchors: DraftAnchors, caches: object, num_drafts: int) -> DraftBlock:
        """The position of a block row's token is in the logits, its slot in nothing."""
        places = anchors.last_positions[:, None] + torch.arange(1, num_drafts + 1, device=anchors.tokens.device)
        return DraftBlock(self._at[places % 64], self._at[places % 64])

    def adjust(self, block: DraftBlock, row: int, previous: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return block.base_logits[:, row] + self._after[previous] + self._noise[previous], self._score[previous]


class World:
    """Sequences that decode, and what the host's way makes of their steps."""

    def __init__(self, seed: int, count: int, vocab: int, rejection: bool, max_positions: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.vocab, self.num_valid = vocab, vocab - PADDING
        self.tables = Tables(seed, vocab, CPU)
        self.max_positions = max_positions
        memory = DraftMemory(count) if rejection else None
        sampler, self._plan = make_sampler([], self.num_valid), None
        self._chooser = TokenChooser(self, sampler, Probe(()), memory)
        executor = TorchDraftExecutor(self.tables, None, sampler, CPU)
        self._proposer = DraftProposer(executor, sampler, TEMPERATURES, self.max_positions, memory)
        self.requests = [self._request(seq_id) for seq_id in range(count)]
        for request in self.requests:
            self._chooser.add(request)
        # Of each sequence: tokens in the caches, newest token, drafts behind it, output index.
        self.state = [(int(self.rng.integers(1, 9)), int(self.rng.integers(vocab)), [], 0) for _ in range(count)]

    def _request(self, seq_id: int):
        rng = self.rng
        fields = {
            "temperature": float(rng.choice([0.0, 0.5, 1.0, 2.0])),
            "top_p": float(rng.choice([1.0, 1.0, 1.0, 0.8])),
            "top_k": int(rng.choice([0, 0, 0, 6])),
            "min_p": float(rng.choice([0.0, 0.1])),
        }
        stops = [int(token) for token in rng.choice(self.vocab, 3, replace=False)]
        return make_request(seq_id, prompt=[seq_id, 1], seed=int(rng.integers(2**62)), stop_token_ids=stops, **fields)

    def logits(self, rows: np.ndarray) -> torch.Tensor:
        """The executor of the chooser."""
        plan = self._plan
        parts = (part[rows].astype(np.int64) for part in (plan.token_ids, plan.positions))
        return self.tables.target(*(torch.from_numpy(part) for part in parts))

    def plan(self) -> SimpleNamespace:
        """A step of some of the sequences, in any order, with some of their drafts."""
        live = [seq for seq, state in enumerate(self.state) if state is not None]
        ids = self.rng.permutation(live)[: self.rng.integers(1, len(live) + 1)].tolist()
        chosen = [(self.state[seq], int(self.rng.integers(0, len(self.state[seq][2]) + 1))) for seq in ids]
        tokens = [[token, *drafts[:number]] for (_, token, drafts, _), number in chosen]
        lengths = np.array([len(row) for row in tokens], dtype=np.int32)
        contexts = np.array([state[0] for state, _ in chosen], dtype=np.int32)
        none = np.empty(0, dtype=np.int64)
        return SimpleNamespace(
            seq_ids=np.array(ids, dtype=np.int64),
            cu_seqlens_q=np.concatenate(([0], lengths.cumsum())).astype(np.int32),
            context_lens=contexts,
            token_ids=np.array([token for row in tokens for token in row], dtype=np.int32),
            positions=np.concatenate([start + np.arange(n) for start, n in zip(contexts, lengths, strict=True)]),
            state_slots=np.array(ids, dtype=np.int32),
            samples=np.ones(len(ids), dtype=bool),
            num_drafts=lengths - 1,
            output_indices=np.array([state[3] for state, _ in chosen], dtype=np.int32),
            fork_seq_ids=none,
            cu_forks=np.zeros(len(ids) + 1, dtype=np.int32),
            preempted_seq_ids=none,
        )

    def step(self, plan: SimpleNamespace) -> tuple[list[list[int]], np.ndarray, np.ndarray]:
        """New tokens, drafts and confidences of the host's way; the sequences go on, or end."""
        self._plan, errors = plan, {}
        samples = self._chooser.choose(plan, errors)
        proposals = self._proposer.propose(plan, samples, errors)
        tokens = [[token.token_id for token in new] for new in samples]
        for place, seq in enumerate(plan.seq_ids.tolist()):
            context, _, _, index = self.state[seq]
            new = tokens[place]
            drafts = [token for token in proposals.draft_ids[place].tolist() if token >= 0]
            ended = not new or context + len(new) + NUM_DRAFTS >= self.max_positions + 3
            self.state[seq] = None if ended else (context + len(new), new[-1], drafts, index + len(new))
            if ended:
                self._chooser.release(seq)
        return tokens, proposals.draft_ids, proposals.confidences


def rows_of(plan: SimpleNamespace, buckets: tuple[int, int], device: torch.device) -> DecodeRows:
    """A plan as the device has it, padded to (rows, sequences)."""
    num_rows, num_seqs = buckets
    lengths = np.diff(plan.cu_seqlens_q)
    real = np.repeat(np.arange(len(lengths)), lengths)
    last_row, last_seq = len(real) - 1, len(lengths) - 1

    def padded(values: np.ndarray, size: int) -> torch.Tensor:
        return torch.from_numpy(np.resize(values, size).astype(np.int64)).to(device)

    def rows(values: np.ndarray) -> torch.Tensor:
        return padded(values[np.minimum(np.arange(num_rows), last_row)], num_rows)

    def seqs(values: np.ndarray) -> torch.Tensor:
        return padded(values[np.minimum(np.arange(num_seqs), last_seq)], num_seqs)

    return DecodeRows(
        token_ids=rows(plan.token_ids),
        positions=rows(plan.positions),
        seqs=torch.where(torch.arange(num_rows, device=device) <= last_row, rows(real), -1),
        state_slots=rows(plan.state_slots[real]),
        first_blocks=rows(np.zeros(len(real))),
        first_rows=seqs(plan.cu_seqlens_q[:-1]),
        num_rows=torch.where(torch.arange(num_seqs, device=device) <= last_seq, seqs(lengths), 0),
        context_lens=seqs(plan.context_lens),
        seq_slots=seqs(plan.state_slots),
    )


def check_device_steps(
    seed: int,
    sizes: tuple[int, int, int],
    rejection: bool,
    device: torch.device,
    run: Callable[[Callable[[], None], list[torch.Tensor]], None] = lambda work, state: work(),
) -> tuple[int, int]:
    """Tokens, drafts and confidences of the device's way are those of the host's, step by step.

    Args:
        seed: of everything.
        sizes: sequences, vocabulary, positions.
        rejection: rule of acceptance.
        device: of the device's way.
        run: runs a step, which reads and writes some state: the outcome, then what the pool of drafts holds.

    Returns how many drafts were judged and how many of them were accepted.
    """
    from deepinfer.sampling.cuda_sampler import CudaSampler
    from deepinfer.sampling.draft_pool import DraftPool
    from deepinfer.sampling.step_rules import StepRules
    from deepinfer.sampling.step_sampler import StepSampler
    from deepinfer.worker.step_drafter import StepDrafter

    count, vocab, positions = sizes
    world, max_seqs = World(seed, count, vocab, rejection, positions), count + 2
    pool = DraftPool(count, NUM_DRAFTS, world.num_valid, device) if rejection else None
    sampler = CudaSampler(make_sampler([], world.num_valid), device, pool)
    for request in world.requests:
        sampler.add(request)
    chooser, tables = StepSampler(world.num_valid, pool), Tables(seed, vocab, device)
    drafter = StepDrafter(tables, None, chooser, TEMPERATURES, world.max_positions, device)
    outcome = DeviceOutcome.allocate(max_seqs, NUM_DRAFTS, 0, device)
    rules = StepRules.allocate(max_seqs, device)
    state = [outcome.tokens, outcome.num_tokens, outcome.draft_ids, outcome.confidences]
    if pool is not None:
        state += [pool.weights, pool._owners, pool._first_indices, pool._ids]
    num_judged = num_accepted = 0
    while any(state is not None for state in world.state):
        plan = world.plan()
        num_seqs = len(plan.seq_ids)
        buckets = (len(plan.token_ids) + int(world.rng.integers(3)), num_seqs + int(world.rng.integers(3)))
        rows = rows_of(plan, buckets, device)
        ghost = int(plan.seq_ids[-1]) if world.rng.random() < 0.1 else None
        if ghost is not None:
            sampler.remove(ghost)
        values = np.empty((buckets[1], rules.values.shape[1]), dtype=np.int64)
        is_plain, kinds = sampler.fill_rules(plan.seq_ids.tolist(), plan.output_indices, values)
        assert is_plain
        rules.values[: buckets[1]].copy_(torch.from_numpy(values))
        logits = tables.target(rows.token_ids, rows.positions)
        step = (rows, rules.first(buckets[1]), kinds, outcome)

        def work(logits: torch.Tensor = logits, step: Any = step) -> None:
            chooser.choose(logits, *step)
            drafter.follow(*step)

        run(work, state)
        tokens, draft_ids, confidences = world.step(plan)
        if ghost is not None:
            world.state[ghost], tokens[-1], draft_ids[-1], confidences[-1] = None, [], -1, 0.0
        expected = np.full((num_seqs, NUM_DRAFTS + 1), -1)
        for place, new in enumerate(tokens):
            expected[place, : len(new)] = new
        np.testing.assert_array_equal(outcome.tokens[:num_seqs].cpu(), expected)
        np.testing.assert_array_equal(outcome.num_tokens[:num_seqs].cpu(), [len(new) for new in tokens])
        assert not outcome.num_tokens[num_seqs : buckets[1]].any()
        both = torch.cat((outcome.num_tokens[:, None], outcome.tokens), dim=1)[: buckets[1]]
        assert torch.equal(outcome.columns[: buckets[1], : NUM_DRAFTS + 2], both.double())
        np.testing.assert_array_equal(outcome.draft_ids[:num_seqs].cpu(), draft_ids)
        drafted = torch.cat((outcome.draft_ids, outcome.confidences.double()), dim=1)[: buckets[1]]
        assert torch.equal(outcome.columns[: buckets[1], NUM_DRAFTS + 2 :], drafted)
        # exp of another library, in float64 and rounded
        np.testing.assert_allclose(outcome.confidences[:num_seqs].cpu(), confidences, rtol=1e-6)
        num_judged += int(plan.num_drafts.sum())
        num_accepted += sum(len(new) - 1 for new in tokens if new)
    return num_judged, num_accepted
