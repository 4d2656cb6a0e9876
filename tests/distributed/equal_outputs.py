"""The ranks of a world against one engine by itself."""

from tests.distributed import rank_engine

OPTIONS = {"max_model_len": 96, "max_num_seqs": 3, "max_num_batched_tokens": 24, "block_size": 16}


def requests(num):
    """Prompts of uneven lengths, some longer than a step; greedy and sampled."""
    lengths = [1 + 13 * i % 41 for i in range(num)]
    ids = [[40 + (5 * i + 3 * j * j) % 150 for j in range(length)] for i, length in enumerate(lengths)]
    return [
        (tokens, {"max_tokens": 2 + 5 * i % 12, "temperature": float(i % 3 > 1), "logprobs": 2, "ignore_eos": True})
        for i, tokens in enumerate(ids)
    ]


def check(world, model, sizes, options, owners):
    """`owners`: the replica of each request. Returns what each rank's balancers say: [(rearranged, moved)]."""
    asked = requests(len(owners))
    options = OPTIONS | options
    want = rank_engine.run_alone(model, options, asked)
    parts = world.run(rank_engine.run_rank, model, sizes, options, asked, owners)
    got = {number: output for part, _ in parts for number, output in part.items()}
    assert [got[number] for number in range(len(asked))] == want
    return [moves for _, moves in parts]
