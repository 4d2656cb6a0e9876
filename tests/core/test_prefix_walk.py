"""Random walks with saved prefixes: no text changes, nothing waits for ever, nothing stays held."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest

from deepinfer._C import SchedulerConfig, SequenceSpec
from tests.core.fake_worker import Driver, choice_of, expected_output, make_config


def random_config(random: Random) -> SchedulerConfig:
    pick = random.randint
    num_drafts = random.choice([0, 0, 1, 3])
    return make_config(
        num_blocks=pick(2, 20),
        block_size=random.choice([1, 2, 4, 6]),
        num_state_slots=pick(1, 5),
        max_num_seqs=pick(1, 5),
        max_num_batched_tokens=pick(1, 20) + num_drafts,
        max_prefill_chunk=pick(1, 20),
        max_model_len=pick(2, 48),
        num_drafts=num_drafts,
        keep_tokens=random.choice([0, 1, 7]),
        replay_tokens=random.choice([1, 2, 5, 9]),
        replay_multiple=random.choice([1, 2]),
    )


@dataclass
class Walk:
    """Adds, saves, closes, ends and steps in any order."""

    seed: int
    live: dict[int, SequenceSpec] = field(default_factory=dict)
    prefixes: dict[int, list[int]] = field(default_factory=dict)  # open ones and their tokens
    may_be_cut: set[int] = field(default_factory=set)  # sequences that came while prefixes held blocks
    next_id: int = 0
    num_saved: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.driver = Driver(random_config(self.random))
        self.scheduler = self.driver.scheduler
        self.base = [self.random.randrange(7) for _ in range(30)]

    def add(self) -> None:
        random = self.random
        prefix_id = random.choice([-1, *self.prefixes])
        tail = [random.randrange(7) for _ in range(random.randint(1, 6))]
        text = self.prefixes.get(prefix_id, self.base)
        stops = [3] if random.random() < 0.3 else []
        prompt = text[: random.randint(0, len(text))] + tail
        max_tokens, num_forks = random.choice([0, 5, 30]), random.choice([0, 0, 2])
        try:
            spec = self.driver.add(self.next_id, prompt, max_tokens, stops, 0, num_forks, prefix_id)
        except ValueError:
            return  # longer than the model or than what prefixes leave
        family = [self.next_id, *spec.fork_seq_ids.tolist()]
        self.live |= dict.fromkeys(family, spec)
        if self.scheduler.num_saved_blocks:
            self.may_be_cut.update(family)
        self.next_id += 1

    def save(self) -> None:
        seq_id = self.random.choice([*self.live, *range(self.next_id + 1)])
        try:
            prefix_id = self.scheduler.save_prefix(seq_id)
        except ValueError:
            return  # nothing of it is there, or no room
        self.prefixes[prefix_id] = self.scheduler.prefix_token_ids(prefix_id).tolist()
        self.num_saved += 1

    def close(self) -> None:
        if self.prefixes:
            prefix_id = self.random.choice(list(self.prefixes))
            del self.prefixes[prefix_id]
            assert self.scheduler.close_prefix(prefix_id)

    def end(self) -> None:
        if self.live:
            seq_id = self.random.choice(list(self.live))
            if self.random.random() < 0.5:
                assert self.scheduler.abort(seq_id)
            else:
                assert self.scheduler.finish(seq_id, self.random.randint(0, len(self.driver.outputs.get(seq_id, []))))
            self.forget(seq_id)

    def discard(self) -> None:
        plan = self.scheduler.schedule()
        if self.random.random() < 0.5:
            self.driver.worker.execute(plan)
        self.save()
        self.scheduler.discard(plan.step_id)
        if plan.kind == "prefill":
            for seq_id in plan.seq_ids[plan.context_lens > plan.window_starts].tolist():
                assert self.scheduler.abort(seq_id)
                self.forget(seq_id)

    def step(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            self.driver.step()
            self.judge()

    def forget(self, seq_id: int) -> None:
        """A sequence has ended from outside, and with it its forks to come."""
        spec = self.live.pop(seq_id)
        if spec.seq_id == seq_id:
            for fork in spec.fork_seq_ids.tolist():
                if fork not in self.driver.outputs:
                    self.live.pop(fork, None)

    def judge(self) -> None:
        """Texts that have ended are those of a naive loop; what prefixes take may only end them earlier."""
        for seq_id in [seq_id for seq_id in self.live if seq_id in self.driver.reasons]:
            spec = self.live.pop(seq_id)
            tokens, reason = self.driver.outputs.get(seq_id, []), self.driver.reasons[seq_id]
            wanted = expected_output(spec, self.driver.config, choice_of(seq_id))
            is_cut = seq_id in self.may_be_cut and reason == "length" and tokens == wanted[0][: len(tokens)]
            assert is_cut or (tokens, reason) == wanted

    def run(self, num_actions: int) -> None:
        actions = [self.add, self.add, self.step, self.step, self.save, self.save, self.close, self.end, self.discard]
        for _ in range(num_actions):
            self.random.choice(actions)()
            self.scheduler.check()
        while self.scheduler.has_unfinished():
            self.step()
        assert not self.live
        while self.prefixes:
            self.close()
        self.scheduler.check()
        assert self.scheduler.num_free_blocks == self.driver.config.num_blocks
        assert self.scheduler.num_saved_blocks == 0


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_walks(first: int) -> None:
    num_saved = 0
    for seed in range(first, first + 100):
        walk = Walk(seed)
        walk.run(60)
        num_saved += walk.num_saved
    assert num_saved > 100
