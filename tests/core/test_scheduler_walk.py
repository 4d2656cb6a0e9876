"""Random walks of the scheduler: every text must be the one that a loop without a scheduler gives."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from deepinfer._C import SchedulerConfig, SequenceSpec
from tests.core.fake_worker import VOCAB_SIZE, Driver, choice_of, expected_output

TOKENS = st.integers(0, VOCAB_SIZE - 1)


class SchedulerWalk(RuleBasedStateMachine):
    """Adds, aborts, finishes and steps in any order; the naive model is `expected_output` and a set of live ids."""

    live = Bundle("live")

    @initialize(
        num_blocks=st.integers(1, 16),
        block_size=st.integers(1, 6),
        seats=st.integers(1, 5),
        slots=st.integers(1, 5),
        budget=st.integers(1, 20),
        chunk=st.integers(1, 20),
        max_model_len=st.integers(1, 40),
        num_lookback=st.integers(0, 3),
        chunked=st.booleans(),
        num_drafts=st.sampled_from([0, 0, 1, 2, 5]),
        varlen=st.booleans(),
        keep_tokens=st.sampled_from([0, 1, 7]),
    )
    def start(
        self,
        num_blocks,
        block_size,
        seats,
        slots,
        budget,
        chunk,
        max_model_len,
        num_lookback,
        chunked,
        num_drafts,
        varlen,
        keep_tokens,
    ):
        budget += num_drafts
        self.config = SchedulerConfig(
            *(num_blocks, block_size, slots, seats, budget, chunk, max_model_len, num_lookback, chunked),
            num_drafts,
            varlen,
            keep_tokens,
        )
        self.driver = Driver(self.config)
        self.specs: dict[int, SequenceSpec] = {}
        self.next_id = 0

    @rule(
        target=live,
        prompt=st.lists(TOKENS, min_size=1, max_size=24),
        max_tokens=st.integers(0, 24),
        stops=st.lists(TOKENS, max_size=2),
        min_tokens=st.integers(0, 6),
        num_forks=st.sampled_from([0, 0, 1, 2, 5]),
    )
    def add(self, prompt, max_tokens, stops, min_tokens, num_forks):
        longest = min(self.config.max_model_len, self.config.num_blocks * self.config.block_size)
        if not self.config.enable_chunked_prefill:
            longest = min(longest, self.config.max_num_batched_tokens)
        try:
            spec = self.driver.add(self.next_id, prompt, max_tokens, stops, min_tokens, num_forks)
        except ValueError:
            assert len(prompt) > longest
            return multiple()
        assert len(prompt) <= longest
        family = [self.next_id, *spec.fork_seq_ids.tolist()]
        self.specs |= dict.fromkeys(family, spec)
        self.next_id += 1
        return multiple(*family)

    @rule(per_row=st.floats(0, 3), per_pass=st.floats(0.01, 3), last=st.integers(0, 40))
    def change_costs(self, per_row, per_pass, last):
        points = [(rows, 1 + per_row * rows) for rows in range(2, last, 2)]
        self.driver.scheduler.set_cost_curves(points, [(100, per_pass)])

    @rule(num_steps=st.integers(1, 8))
    def step(self, num_steps):
        for _ in range(num_steps):
            plan = self.driver.step()
            self._compare()
            assert (plan.kind == "empty") == (plan.num_seqs == 0)

    @rule(seq_id=consumes(live), in_flight=st.booleans())
    def abort(self, seq_id, in_flight):
        self._end(seq_id, in_flight, lambda: self.driver.scheduler.abort(seq_id))

    @rule(seq_id=consumes(live), in_flight=st.booleans(), part=st.floats(0, 1))
    def finish(self, seq_id, in_flight, part):
        keep = int(part * len(self.driver.outputs.get(seq_id, [])))
        self._end(seq_id, in_flight, lambda: self.driver.scheduler.finish(seq_id, keep))

    @rule(computed=st.booleans())
    def discard(self, computed):
        scheduler = self.driver.scheduler
        plan = scheduler.schedule()
        if computed:
            self.driver.worker.execute(plan)
        scheduler.discard(plan.step_id)
        if computed and plan.kind == "prefill":  # rings of a later chunk may be overwritten: the engine ends these
            for seq_id in plan.seq_ids[plan.context_lens > 0].tolist():
                self._forget(seq_id)
                assert scheduler.abort(seq_id)

    @invariant()
    def holds(self):
        scheduler = self.driver.scheduler
        scheduler.check()
        to_come = sum(self._is_to_come(seq_id) for seq_id in self.specs)
        assert scheduler.num_running + scheduler.num_waiting + to_come == len(self.specs)
        assert scheduler.has_unfinished() == bool(self.specs)
        for seq_id, spec in self.specs.items():
            text = spec.prompt_token_ids.tolist() + self.driver.outputs.get(seq_id, [])
            assert scheduler.token_ids(seq_id).tolist() == text

    def teardown(self):
        if hasattr(self, "driver"):
            self.driver.run(20000)
            self._compare()
            assert not self.specs

    def _end(self, seq_id, in_flight, end) -> None:
        if in_flight:
            plan = self.driver.scheduler.schedule()
            sampled = self.driver.worker.execute(plan)
        is_live = seq_id in self.specs
        self._forget(seq_id)
        assert end() == is_live
        self.driver.scheduler.check()
        if in_flight:
            before = len(self.driver.outputs.get(seq_id, []))
            self.driver.finish_step(plan, *sampled)
            assert len(self.driver.outputs.get(seq_id, [])) == before
            self._compare()

    def _is_to_come(self, seq_id) -> bool:
        return choice_of(seq_id) > 0 and seq_id not in self.driver.outputs

    def _forget(self, seq_id) -> None:
        """A sequence ends from outside, and with it its forks to come."""
        spec = self.specs.pop(seq_id, None)
        if spec is not None and spec.seq_id == seq_id:
            for fork in spec.fork_seq_ids.tolist():
                if self._is_to_come(fork):
                    self.specs.pop(fork, None)

    def _compare(self) -> None:
        """Judge the texts that have ended since the last call."""
        for seq_id in [seq_id for seq_id in self.specs if seq_id in self.driver.reasons]:
            spec = self.specs.pop(seq_id)
            assert (self.driver.outputs.get(seq_id, []), self.driver.reasons[seq_id]) == expected_output(
                spec, self.config, choice_of(seq_id)
            )


SchedulerWalk.TestCase.settings = settings(
    max_examples=200, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
TestSchedulerWalk = SchedulerWalk.TestCase
