"""Any schedule of requests, ends and failures gives the same tokens with one step in flight and with two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from deepinfer._C import SchedulerConfig, SequenceSpec
from tests.core.fake_worker import VOCAB_SIZE, Driver, choice_of, expected_output, make_config
from tests.core.overlapped_driver import OverlappedDriver

BASE = [(3 * i * i + i // 5) % VOCAB_SIZE for i in range(24)]  # every prompt begins like this one
KINDS = ("add", "add", "step", "step", "step", "step", "abort", "abort_in_flight", "fail", "costs", "save", "close")

CONFIGS = st.builds(
    lambda num_drafts, budget, **sizes: make_config(
        **sizes, num_drafts=num_drafts, max_num_batched_tokens=budget + num_drafts
    ),
    num_drafts=st.sampled_from([0, 1, 2, 5]),
    budget=st.integers(1, 20),
    num_blocks=st.integers(2, 24),
    block_size=st.integers(1, 6),
    max_num_seqs=st.integers(1, 6),
    num_state_slots=st.integers(1, 6),
    max_prefill_chunk=st.integers(1, 20),
    max_model_len=st.integers(2, 40),
    num_lookback=st.integers(0, 3),
    varlen=st.booleans(),
    keep_tokens=st.sampled_from([0, 1, 7]),
    replay_tokens=st.integers(1, 5),
    replay_multiple=st.integers(1, 2),
)
# The numbers say how: which prompt, which sequence, how many steps. Mixed, since drawn ones are mostly small.
NUMBERS = st.integers(0, 2**20).map(lambda number: crc32(b"%d" % number) % 2**20)
ACTIONS = st.lists(st.tuples(st.sampled_from(KINDS), NUMBERS), min_size=10, max_size=60)


@dataclass
class Play:
    """One loop's run of a schedule."""

    driver: Driver
    specs: dict[int, SequenceSpec] = field(default_factory=dict)  # of every sequence, forks included
    dropped: set[int] = field(default_factory=set)  # by an abort or a failure; how far they got depends on the loop
    may_be_cut: set[int] = field(default_factory=set)  # prefixes held blocks when they came
    prefix_ids: list[int] = field(default_factory=list)

    def run(self, actions: list[tuple[str, int]]) -> None:
        for number, (kind, how) in enumerate(actions):
            getattr(self, f"_{kind}")(how, number)
            self.driver.scheduler.check()
        for prefix_id in self.prefix_ids:
            self.driver.scheduler.close_prefix(prefix_id)
        self.driver.run(5000)
        outputs = self.driver.outputs.values()
        assert self.driver.scheduler.stats().num_generated_tokens == sum(map(len, outputs))

    def outcome(self, seq_id: int) -> tuple[list[int], str]:
        return self.driver.outputs.get(seq_id, []), self.driver.reasons[seq_id]

    def _add(self, how: int, number: int) -> None:
        prompt = BASE[: how % 19] + [how % VOCAB_SIZE]
        stops = [how % VOCAB_SIZE] if how % 3 == 0 else []
        prefix_id = self.prefix_ids[-1] if self.prefix_ids and how % 2 else -1
        num_forks = (0, 0, 0, 2)[how // 8 % 4]
        has_prefixes = self.driver.scheduler.num_saved_blocks > 0
        try:
            spec = self.driver.add(number, prompt, how % 23, stops, how % 4, num_forks, prefix_id)
        except ValueError:
            return  # longer than the model, or than what prefixes leave
        family = [number, *spec.fork_seq_ids.tolist()]
        self.specs |= dict.fromkeys(family, spec)
        if has_prefixes:
            self.may_be_cut.update(family)
        if how % 5 == 0:
            self.driver.halts |= dict.fromkeys(family, how // 5 % VOCAB_SIZE)

    def _step(self, how: int, number: int) -> None:
        for _ in range(1 + how % 5):
            self.driver.step()

    def _abort(self, how: int, number: int) -> None:
        live = [seq_id for seq_id in self.specs if seq_id not in self.driver.reasons and seq_id not in self.dropped]
        if live:
            self._drop(live[how % len(live)])

    def _abort_in_flight(self, how: int, number: int) -> None:
        self.driver.step(lambda: self._abort(how, number))

    def _drop(self, seq_id: int) -> None:
        spec = self.specs[seq_id]
        gone = {seq_id}
        if spec.seq_id == seq_id:
            gone |= {fork for fork in spec.fork_seq_ids.tolist() if fork not in self.driver.outputs}
        assert self.driver.scheduler.abort(seq_id)
        self.dropped |= gone

    def _fail(self, how: int, number: int) -> None:
        computed = how % 2 == 1
        if isinstance(self.driver, OverlappedDriver):
            plan = self.driver.fail(computed, books_first=how // 2 % 2 == 1, both=how // 4 % 2 == 1)
        else:
            plan = self.driver.scheduler.schedule()
            if computed:
                self.driver.worker.execute(plan)
            self.driver.scheduler.discard(plan.step_id)
        if computed and plan.kind == "prefill":  # rings of a later chunk may be overwritten: the engine ends these
            for seq_id in plan.seq_ids[plan.context_lens > plan.window_starts].tolist():
                self._drop(seq_id)

    def _costs(self, how: int, number: int) -> None:
        points = [(rows, 1 + (how % 50) / 20 * rows) for rows in range(2, how % 40, 2)]
        self.driver.scheduler.set_cost_curves(points, [(100, 0.1)])

    def _save(self, how: int, number: int) -> None:
        try:
            self.prefix_ids.append(self.driver.scheduler.save_prefix(how % (number + 1)))
        except ValueError:
            return  # nothing of it is there, or no room

    def _close(self, how: int, number: int) -> None:
        if self.prefix_ids:
            assert self.driver.scheduler.close_prefix(self.prefix_ids.pop(how % len(self.prefix_ids)))


def wanted_outcome(play: Play, seq_id: int) -> tuple[list[int], str]:
    """What a loop without a scheduler gives."""
    tokens, reason = expected_output(play.specs[seq_id], play.driver.config, choice_of(seq_id))
    halt = play.driver.halts.get(seq_id)
    return (tokens[: tokens.index(halt) + 1], "halt") if halt in tokens else (tokens, reason)


def judge(play: Play) -> None:
    for seq_id in play.specs:
        tokens, reason = wanted_outcome(play, seq_id)
        if seq_id in play.dropped:
            got = play.driver.outputs.get(seq_id, [])
            assert got == tokens[: len(got)]
        elif play.outcome(seq_id) != (tokens, reason):
            got, got_reason = play.outcome(seq_id)
            assert seq_id in play.may_be_cut and got_reason == "length" and got == tokens[: len(got)]


def check_schedule(config: SchedulerConfig, actions: list[tuple[str, int]], seed: int) -> OverlappedDriver:
    plays = [Play(Driver(config)), Play(OverlappedDriver(config, seed=seed))]
    for play in plays:
        play.run(actions)
        judge(play)
    one, two = plays
    for seq_id in one.specs.keys() & two.specs.keys():
        if not any(seq_id in play.dropped | play.may_be_cut for play in plays):
            assert one.outcome(seq_id) == two.outcome(seq_id)
    assert isinstance(two.driver, OverlappedDriver)
    return two.driver


def examples(number: int) -> Callable[[Any], Any]:
    return settings(
        max_examples=number, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )


@examples(200)
@given(config=CONFIGS, actions=ACTIONS, seed=st.integers(0, 999))
def test_both_loops_give_the_same_tokens(config, actions, seed):
    check_schedule(config, actions, seed)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@examples(10_000)
@given(config=CONFIGS, actions=ACTIONS, seed=st.integers(0, 999))
def test_both_loops_give_the_same_tokens_in_many_schedules(config, actions, seed):
    check_schedule(config, actions, seed)
