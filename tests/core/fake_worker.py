"""A worker without a model: real caches of token ids, so that a wrong block, slot or row shows up as a wrong text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from zlib import crc32

import numpy as np

from deepinfer._C import Scheduler, SchedulerConfig, SequenceSpec, StepPlan

VOCAB_SIZE = 7
FORK_STRIDE = 1_000_000
FINISH_REASONS = ("running", "stop", "length")


def make_config(**changes: int) -> SchedulerConfig:
    """A small configuration with the given fields changed."""
    fields = {
        "num_blocks": 64,
        "block_size": 4,
        "num_state_slots": 8,
        "max_num_seqs": 8,
        "max_num_batched_tokens": 32,
        "max_prefill_chunk": 32,
        "max_model_len": 64,
        "num_lookback": 3,
    }
    return SchedulerConfig(**(fields | changes))


def prompt_of(length: int, first: int = 0) -> list[int]:
    """Some prompt of that length."""
    return [(first + 3 * i) % 7 for i in range(length)]


def choice_of(seq_id: int) -> int:
    """Forks are numbered parent + FORK_STRIDE, parent + 2 * FORK_STRIDE, ..."""
    return seq_id // FORK_STRIDE


def next_token(text: list[int], choice: int = 0) -> int:
    """The token that follows a text: a function of every token before it and of the choice (forks: 1, 2, ...)."""
    return crc32(bytes([choice % 256, *text])) % VOCAB_SIZE


def expected_output(spec: SequenceSpec, config: SchedulerConfig, choice: int = 0) -> tuple[list[int], str]:
    """Tokens and finish reason of a sequence, or of a fork of it, found without a scheduler."""
    prompt = spec.prompt_token_ids.tolist()
    stops = spec.stop_token_ids.tolist()
    max_len = min(len(prompt) + spec.max_tokens, config.max_model_len, config.num_blocks * config.block_size + 1)
    output: list[int] = []
    while len(prompt) + len(output) < max_len:
        output.append(next_token(prompt + output, choice))
        if output[-1] in stops and len(output) > spec.min_tokens:
            return output, "stop"
    return output, "length"


@dataclass
class FakeWorker:
    """Executes plans for one scheduler and checks each against the caches and the budgets.

    Entries remember who wrote them: a text may hold its own and, below the end of the prompt, its parent's. So a write
    to a shared block, a missing copy, or a copy of what was overwritten is noticed.
    """

    config: SchedulerConfig
    cache: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)  # (block, offset) -> (seq, token)
    states: dict[int, tuple[int, int]] = field(default_factory=dict)  # slot -> (seq, tokens seen)
    parents: dict[int, int] = field(default_factory=dict)  # of forks
    random: Random = field(default_factory=lambda: Random(5))

    def execute(self, plan: StepPlan) -> tuple[np.ndarray, np.ndarray]:
        """Write the rows of every sequence, read its text back, sample. Returns tokens and cu_tokens.

        New drafts are left for `drafts`.
        """
        return self.sample(plan, self.forward(plan))

    def forward(self, plan: StepPlan) -> list[list[int]]:
        """Write the rows of every sequence of an exact plan; the texts that are in the caches then, drafts included."""
        assert plan.previous_step_id == -1
        assert plan.num_tokens <= self.config.max_num_batched_tokens
        assert plan.num_seqs <= self.config.max_num_seqs
        assert len(set(plan.seq_ids.tolist())) == plan.num_seqs
        self._copy(plan)
        return [self._write_and_read(plan, i) for i in range(plan.num_seqs)]

    def sample(
        self, plan: StepPlan, texts: list[list[int]], known: set[int] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Tokens and cu_tokens behind those texts; none for the sequences of a decode step that are not `known`."""
        self._draft_rows: list[list[int]] = []
        tokens: list[int] = []
        cu_tokens = [0]
        for i, text in enumerate(texts):
            if plan.kind == "decode" and known is not None and int(plan.seq_ids[i]) not in known:
                self._draft_rows.append([-1] * self.config.num_drafts)
            elif plan.samples[i]:
                num_drafts = int(plan.num_drafts[i])
                drafts = text[len(text) - num_drafts :]
                del text[len(text) - num_drafts :]
                for choice in self._choices(plan, i):
                    accepted = self._verify(text, drafts, choice)
                    tokens += accepted
                    self._draft_rows.append(self._draft(text + accepted, choice))
            cu_tokens.append(len(tokens))
        return np.array(tokens, dtype=np.int32), np.array(cu_tokens, dtype=np.int32)

    def drafts(self, plan: StepPlan) -> tuple[np.ndarray | None, np.ndarray | None]:
        """New drafts of the step that was executed last, and their confidences (random ones)."""
        if not plan.make_drafts:
            return None, None
        ids = np.array(self._draft_rows, dtype=np.int32).reshape(-1, self.config.num_drafts)
        confidences = [self.random.random() for _ in range(ids.size)]
        return ids, np.array(confidences, dtype=np.float32).reshape(ids.shape)

    def _verify(self, text: list[int], drafts: list[int], choice: int) -> list[int]:
        """The drafts that are right, and the token behind them."""
        tokens: list[int] = []
        for draft in (*drafts, None):
            tokens.append(next_token(text + tokens, choice))
            if tokens[-1] != draft:
                break
        return tokens

    def _draft(self, text: list[int], choice: int) -> list[int]:
        """A random number of drafts, each wrong now and then."""
        drafts: list[int] = []
        for _ in range(self.random.randint(0, self.config.num_drafts)):
            is_wrong = self.random.random() < 0.2
            drafts.append(self.random.randrange(VOCAB_SIZE) if is_wrong else next_token(text + drafts, choice))
        return drafts + [-1] * (self.config.num_drafts - len(drafts))

    def _copy(self, plan: StepPlan) -> None:
        for copies in (plan.slot_copies, plan.block_copies):
            sources, destinations = ({pair[side] for pair in copies.tolist()} for side in (0, 1))
            assert len(destinations) == len(copies) and not sources & destinations
        for source, destination in plan.slot_copies.tolist():
            self.states[destination] = self.states[source]
        for source, destination in plan.block_copies.tolist():
            for offset in range(self.config.block_size):
                self.cache.pop((destination, offset), None)
                if (source, offset) in self.cache:
                    self.cache[destination, offset] = self.cache[source, offset]

    def _choices(self, plan: StepPlan, i: int) -> list[int]:
        """Choice numbers that sample from sequence i's row; the forks among them become known here."""
        seq_id = int(plan.seq_ids[i])
        forks = plan.fork_seq_ids[plan.cu_forks[i] : plan.cu_forks[i + 1]].tolist()
        assert not forks or (plan.output_indices[i] == 0 and plan.samples[i])
        for fork in forks:
            self.parents[fork] = seq_id
        return [choice_of(one) for one in (seq_id, *forks)]

    def _write_and_read(self, plan: StepPlan, i: int) -> list[int]:
        seq_id, start, slot = int(plan.seq_ids[i]), int(plan.context_lens[i]), int(plan.state_slots[i])
        rows = slice(plan.cu_seqlens_q[i], plan.cu_seqlens_q[i + 1])
        table = plan.block_ids[plan.cu_blocks[i] : plan.cu_blocks[i + 1]].tolist()
        ids, positions = plan.token_ids[rows].tolist(), plan.positions[rows].tolist()
        assert ids and positions == list(range(start, start + len(ids)))
        parent = self.parents.get(seq_id, seq_id)
        is_replay = start > 0 and start == plan.window_starts[i]
        if start > 0 and not is_replay:
            owner, num_seen = self.states[slot]
            fresh = owner == parent and start == plan.prompt_lens[i]
            assert owner == seq_id or fresh
            # Ahead: a repeated step, or rejected drafts.
            assert 0 <= num_seen - start <= (1 + self.config.num_drafts if plan.kind == "decode" else 0)
        assert plan.kind != "decode" or len(ids) == 1 + plan.num_drafts[i] <= 1 + self.config.num_drafts
        assert plan.kind == "decode" or plan.num_drafts[i] == 0
        keep = self.config.keep_tokens
        assert plan.consumer_starts[i] == (max(0, plan.prompt_lens[i] - keep) if keep else 0)
        self.states[slot] = (seq_id, start + len(ids))
        size = self.config.block_size
        shared = int(plan.entry_starts[i])
        for token, p in zip(ids, positions, strict=True):
            if p >= shared:
                self.cache[table[p // size], p % size] = (seq_id, token)
            assert self.cache[table[p // size], p % size][1] == token
        entries = [self.cache[table[p // size], p % size] for p in range(start + len(ids))]
        prompt_len = int(plan.prompt_lens[i])
        owners = enumerate(owner for owner, _ in entries)
        assert all(p < shared or owner == seq_id or (owner == parent and p < prompt_len) for p, owner in owners)
        text = [token for _, token in entries]
        wanted = [text[start - 1 - r] if start - 1 - r >= 0 else -1 for r in range(self.config.num_lookback)]
        assert plan.lookback_ids[i].tolist() == wanted
        if plan.samples[i]:
            assert plan.output_indices[i] == len(text) - plan.num_drafts[i] - plan.prompt_lens[i]
        return text


@dataclass
class Driver:
    """A scheduler with its fake worker, and what came out so far."""

    config: SchedulerConfig
    outputs: dict[int, list[int]] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    num_held: int = 0  # blocks of saved prefixes, as the test knows them
    halts: dict[int, int] = field(default_factory=dict)  # sequence -> token that ends it like a stop string

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(self.config)
        self.worker = FakeWorker(self.config)

    def add(
        self,
        seq_id: int,
        prompt: list[int],
        max_tokens: int,
        stops: list[int] | None = None,
        min_tokens: int = 0,
        num_forks: int = 0,
        prefix_id: int = -1,
    ) -> SequenceSpec:
        forks = [seq_id + FORK_STRIDE * choice for choice in range(1, num_forks + 1)]
        spec = SequenceSpec(
            seq_id, np.array(prompt, dtype=np.int32), max_tokens, stops or [], min_tokens, forks, prefix_id
        )
        self.scheduler.add(spec)
        return spec

    def step(self, between: Callable[[], None] = lambda: None) -> StepPlan:
        """One step; `between` is called while it is in flight."""
        plan = self.scheduler.schedule()
        self.scheduler.check()
        tokens, cu_tokens = self.worker.execute(plan)
        between()
        self.finish_step(plan, tokens, cu_tokens)
        return plan

    def finish_step(self, plan: StepPlan, tokens: np.ndarray, cu_tokens: np.ndarray) -> None:
        self.book(plan, tokens, cu_tokens, *self.worker.drafts(plan))

    def book(self, plan: StepPlan, *outcome: np.ndarray | None) -> None:
        """Update the scheduler with a step's outcome and note what came out."""
        update = self.scheduler.update(plan.step_id, *outcome)
        self.scheduler.check()
        for i, seq_id in enumerate(update.seq_ids.tolist()):
            new = update.tokens[update.cu_tokens[i] : update.cu_tokens[i + 1]].tolist()
            assert seq_id not in self.reasons, "a finished sequence came back"
            self.outputs.setdefault(seq_id, []).extend(new)
            reason = FINISH_REASONS[update.finish_reasons[i]]
            assert (update.stop_token_ids[i] != -1) == (reason == "stop")
            if reason != "running":
                self.reasons[seq_id] = reason
            if self.halts.get(seq_id) in new:
                self._halt(seq_id, reason)

    def _halt(self, seq_id: int, reason: str) -> None:
        output = self.outputs[seq_id]
        del output[output.index(self.halts[seq_id]) + 1 :]
        assert self.scheduler.finish(seq_id, len(output)) == (reason == "running")
        self.scheduler.check()
        self.reasons[seq_id] = "halt"

    def run(self, max_steps: int = 1000) -> list[StepPlan]:
        """Step until nothing is unfinished; everything must be free then."""
        plans = []
        while self.scheduler.has_unfinished():
            assert len(plans) < max_steps, "the scheduler makes no progress"
            plans.append(self.step())
        assert self.scheduler.num_free_blocks == self.config.num_blocks - self.num_held
        assert self.scheduler.num_free_state_slots == self.config.num_state_slots
        return plans
