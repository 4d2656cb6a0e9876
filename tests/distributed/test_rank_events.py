"""Ranks that step together while requests come late, fail in sampling, wait for grammars and are aborted."""

import random

import pytest

from tests.distributed.event_rank import Event, live_alone, live_through, spoil

KINDS = (
    {},
    {"n": 2},
    {"logits_processors": [spoil]},
    {"structured_outputs": {"regex": "[ab]{2,9}"}},
    {"presence_penalty": 0.5},
)


def events_of(rng, num_ranks):
    """Of some requests; and who is aborted."""
    events, aborted = [], set()
    for number in range(rng.randrange(2, 9)):
        ids = [rng.randrange(40, 190) for _ in range(rng.randrange(1, 50))]
        params = {"max_tokens": rng.randrange(1, 30), "temperature": rng.choice([0.0, 1.0]), "seed": number}
        step, owner = rng.choice([0, rng.randrange(60), rng.randrange(200)]), rng.randrange(num_ranks)
        events.append(Event(step, owner, number, (ids, params | rng.choice(KINDS))))
        if rng.random() < 0.25:
            events.append(Event(step + rng.randrange(1, 12), owner, number, None))
            aborted.add(number)
    return events, aborted


def check(world, model, seed, is_static, overlaps):
    """Everybody gets an output, that of one engine unless it was aborted, and nothing is held behind the last."""
    rng = random.Random(seed)
    options = {"max_model_len": 96, "block_size": 16, "numerics": "fp32", "backend": "cpu"}
    options |= {"max_num_seqs": rng.choice([1, 2, 5]), "max_num_batched_tokens": rng.choice([8, 24, 64])}
    options |= {"speculative": rng.choice(["off", None, {"varlen": False}])}
    sizes = {"data_parallel_size": world.size, "expert_parallel_size": world.size}
    sizes |= {"two_batch_overlap": rng.choice(["on", "off"]), "prefill_any_interval": rng.choice([1, 8])}
    sizes |= {"num_redundant_experts": 3, "expert_rebalance_interval": rng.choice([0, 3])}
    options["overlap"] = overlaps
    events, aborted = events_of(rng, world.size)
    parts = world.run(live_through, is_static, model, sizes, options, events)
    got = {number: output for outputs, _ in parts for number, output in outputs.items()}
    want = live_alone(model, options, events)
    assert got.keys() == want.keys() and [held for _, held in parts] == [(0, 0, 0, 0)] * world.size
    assert {number: got[number] for number in got.keys() - aborted} == {
        number: want[number] for number in want.keys() - aborted
    }
    return got


@pytest.mark.parametrize("overlaps", [False, True])
def test_static_steps(world2, random_model, overlaps):
    got = check(world2, str(random_model), 13, True, overlaps)
    assert "logits_processor_error" in got.values() and any(output[0][-1] == "abort" for output in got.values())


@pytest.mark.slow
@pytest.mark.parametrize("is_static", [False, True])
@pytest.mark.parametrize("overlaps", [False, True])
def test_many(world2, random_model, is_static, overlaps):
    ended = [check(world2, str(random_model), seed, is_static, overlaps) for seed in range(100, 112)]
    codes = [output for got in ended for output in got.values() if isinstance(output, str)]
    aborted = [output for got in ended for output in got.values() if output and output[0][-1] == "abort"]
    assert codes and aborted
