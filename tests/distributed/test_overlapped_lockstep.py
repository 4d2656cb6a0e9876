"""Ranks in lock step that overlap their steps launch the same collectives in the same order, whatever their sequences
do, and give every request its tokens.
"""

import random
import time

import pytest

from deepinfer import RequestError, SamplingParams
from deepinfer.engine.grammar_queue import GrammarQueue
from tests.distributed.table_world import TableWorld
from tests.support.table_engine import perm_tokens


def greedy(max_tokens, **others):
    return SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True, **others)


def add(number, prompt, params, error=None):
    return lambda rank: rank.add(str(number), prompt, params, error)


def tokens_of(outputs):
    return {int(name): output.outputs[0].token_ids for name, output in outputs.items() if output.error is None}


@pytest.mark.parametrize("overlaps", [False, True])
def test_sequences_that_end_at_different_steps(overlaps):
    """Rank 1 has ghosts again and again, rank 2 one request of one token, rank 3 nothing at all."""
    lengths, rng = {0: [30], 1: [5, 9, 14], 2: [1], 3: []}, random.Random(0)
    with TableWorld([overlaps] * 4) as world:
        count = 0
        for owner, wanted in lengths.items():
            for length in wanted:
                # A stop id that comes then: the length alone would be known beforehand, and leave no ghost.
                params = SamplingParams(temperature=0, max_tokens=40, stop_token_ids=perm_tokens(count, length)[-1:])
                world.send(owner, add(count, [count], params), rng)
                count += 1
        outputs = world.outputs(count)
        world.end()
        got, workers = tokens_of(outputs), [rank.worker for rank in world.ranks]
    ended = [length for wanted in lengths.values() for length in wanted]
    assert got == {number: perm_tokens(number, length) for number, length in enumerate(ended)}
    assert workers[3].num_parts == workers[3].num_skips > 20
    ghosts = [worker.num_skips - worker.num_parts for worker in workers[:3]]
    assert all(ghosts[:2]) if overlaps else not any(ghosts)
    assert all(worker.num_linked > 3 for worker in workers[:2]) == overlaps


def test_abort_while_a_step_is_in_flight():
    """The rank that loses its only sequence goes on with the others' steps, and then takes a late request."""
    rng = random.Random(1)
    with TableWorld([True] * 2) as world:
        world.send(0, add(0, [5], greedy(50)), rng)
        world.send(1, add(1, [6], greedy(50)), rng)
        world.wait_until(lambda: world.ranks[1].worker.num_linked >= 3, "steps over others in flight")
        world.send(1, lambda rank: rank.engine.abort_request("1"), rng)
        world.send(1, add(2, [7], greedy(4)), rng)
        outputs = world.outputs(3)
        world.end()
    assert outputs["1"].outputs[0].finish_reason == "abort"
    assert tokens_of(outputs)[0] == perm_tokens(5, 50) and tokens_of(outputs)[2] == perm_tokens(7, 4)


def test_a_rank_short_of_memory_goes_on_beside_others():
    """Its plans over a step in flight do not fit: it books that one in steps of the other rank, and preempts."""
    rng = random.Random(4)
    with TableWorld([True] * 2, num_blocks=9) as world:
        short, other = world.ranks
        world.send(1, add(0, [8], greedy(60)), rng)
        for number in (1, 2):
            world.send(0, add(number, [*range(29), number], greedy(12)), rng)
        world.outputs(3)
        world.end()
    assert short.scheduler.stats().num_preemptions > 0
    assert other.worker.num_parts < 8 < short.worker.num_parts  # it did not wait for the other's end


class SlowGrammars(GrammarQueue):
    """One request's grammar never gets ready; notes what `told` says whenever the rank sleeps for it."""

    num_pending = 1

    def __init__(self, told):
        super().__init__()
        self.heard, self._told = [], told

    def wait(self, seconds):
        self.heard.append(self._told())
        time.sleep(0.001)

    def withdraw(self, seq_id):
        pass


def test_a_rank_that_waits_for_a_grammar_holds_nobody_up():
    """Where nobody can plan anything over a step in flight, as that is somebody's last, or memory is short."""
    rng = random.Random(3)
    with TableWorld([True] * 2, num_blocks=9) as world:
        idle, busy = world.ranks
        idle.engine._grammars = grammars = SlowGrammars(lambda: len(busy.engine._steps))
        idle.engine._start = lambda request: None  # it is not the scheduler's yet
        for number in range(4):
            world.send(1, add(number, [number], greedy(30)), rng)
        world.wait_until(lambda: busy.worker.num_linked >= 3, "steps over others in flight")
        world.send(0, add(4, [9], greedy(1)), rng)
        world.outputs(4)
        world.wait_until(lambda: len(grammars.heard) >= 3, "sleep for the grammar")
        world.send(0, lambda rank: rank.engine.abort_request("4"), rng)
        world.outputs(5)
        world.end()
    assert not any(grammars.heard)


def test_late_request_of_a_rank_that_sleeps():
    rng = random.Random(2)
    with TableWorld([True] * 3) as world:
        for number in range(4):
            world.send(number % 3, add(number, [number], greedy(1 + number)), rng)
            world.outputs(number + 1)
            world.await_sleep()
        assert tokens_of(world.outputs(4)) == {number: perm_tokens(number, 1 + number) for number in range(4)}
        world.end()


def live(seed):
    """A random world with little memory, where some ranks may not overlap; how many plans were linked."""
    rng = random.Random(seed)
    size = rng.randrange(1, 5)
    overlaps = [True] * size if rng.random() < 0.7 else [rng.random() < 0.5 for _ in range(size)]
    sizes = {"max_num_seqs": rng.choice([1, 2, 5]), "num_blocks": rng.choice([9, 12, 30])}
    sizes |= {"max_num_batched_tokens": rng.choice([8, 64]), "max_prefill_chunk": rng.choice([4, 8])}
    want, left_alone = {}, set()
    with TableWorld(overlaps, **sizes) as world:
        for number in range(rng.randrange(1, 12)):
            prompt, length = [rng.randrange(250) for _ in range(rng.randrange(1, 20))], rng.randrange(1, 30)
            owner, error = rng.randrange(size), RequestError("of its own") if rng.random() < 0.1 else None
            choices = rng.choice([1, 1, 1, 2])
            world.send(owner, add(number, prompt, greedy(length, n=choices if error is None else 1), error), rng)
            want[number] = None if error else [perm_tokens(prompt[-1], length)] * choices
            if rng.random() < 0.2:
                time.sleep(rng.choice([0.0, 0.002]))
                world.send(owner, lambda rank, name=str(number): rank.engine.abort_request(name), rng)
                left_alone.add(number)
            time.sleep(rng.choice([0.0, 0.0, 0.001, 0.01]))
        outputs = world.outputs(len(want))
        world.end()
    for number, tokens in want.items():
        output = outputs[str(number)]
        if number not in left_alone:
            got = None if output.error else [choice.token_ids for choice in output.outputs]
            assert got == tokens, (seed, number)
    return sum(rank.worker.num_linked for rank in world.ranks)


def test_random_worlds():
    assert sum(live(seed) for seed in range(12)) > 50
