"""The ranks of a world against one engine by itself."""

import functools
import json

import numpy as np

from tests.distributed import rank_engine

OPTIONS = {"max_model_len": 96, "max_num_seqs": 3, "max_num_batched_tokens": 24, "block_size": 16}
ON_DEVICE = {
    "cpu": {},
    # Kernels are compiled for blocks of 128.
    "cuda": {
        "device": "cuda",
        "backend": "cuda",
        "batch_invariant": True,
        "block_size": 128,
        "kv_cache_bytes": 2**27,
    },
}
NEAR = 1e-4  # of log-probabilities in float32, whose sums a GPU adds in other orders for other numbers of rows


def spread(num_ranks, experts, **others):
    """Ranks with requests of their own, experts over so many of them."""
    return {"data_parallel_size": num_ranks, "expert_parallel_size": experts, **others}


def requests(num):
    """Prompts of uneven lengths, some longer than a step; greedy and sampled."""
    lengths = [1 + 13 * i % 41 for i in range(num)]
    ids = [[40 + (5 * i + 3 * j * j) % 150 for j in range(length)] for i, length in enumerate(lengths)]
    return [
        (tokens, {"max_tokens": 2 + 5 * i % 12, "temperature": float(i % 3 > 1), "logprobs": 2, "ignore_eos": True})
        for i, tokens in enumerate(ids)
    ]


@functools.cache
def alone(model, packed_options, num_requests):
    """What one engine gives; `packed_options`: JSON."""
    return rank_engine.run_alone(model, json.loads(packed_options), requests(num_requests))


def check(world, model, sizes, options, owners, is_exact=True):
    """`owners`: the replica of each request. Returns what each rank's balancers say: [(rearranged, moved)].

    Without `is_exact` tokens are equal, and log-probabilities near.
    """
    asked = requests(len(owners))
    options = OPTIONS | ON_DEVICE[world.device] | options
    want = alone(model, json.dumps(options), len(owners))
    parts = world.run(rank_engine.run_rank, rank_engine.RankCase(model, sizes, options, asked, owners))
    got = {number: output for part, _ in parts for number, output in part.items()}
    outputs = [got[number] for number in range(len(asked))]
    if is_exact:
        assert outputs == want
    else:
        assert [output["tokens"] for output in outputs] == [output["tokens"] for output in want]
        for output, other in zip(outputs, want, strict=True):
            np.testing.assert_allclose(chosen(output), chosen(other), atol=NEAR)
    return [moves for _, moves in parts]


def chosen(output):
    """The highest log-probability at each place."""
    positions = [position for choice in output["logprobs"] for position in choice]
    return [max(entry["logprob"] for entry in position.values()) for position in positions]
