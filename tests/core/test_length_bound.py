"""How far a plan can point: a simulation of the rules for lengths alone, without scheduler, tokens or blocks.

A text of L tokens feeds the last of them and d drafts, and gets 1 .. d + 1 tokens. The next step is planned before it
is known how many; at most two steps are open. No draft is verified that stands behind the last but one token of the
longest text, and who surely ends is not planned again.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.core.fake_worker import make_config


def farthest(max_len: int, num_drafts: int, num_texts: int, random: Random) -> tuple[int, int]:
    """Most tokens that context and rows came to: in plans as they were made, and in exact ones."""
    planned = exact = 0
    for _ in range(num_texts):
        prompt_len = random.randint(1, max_len)
        exact = max(exact, prompt_len)
        length = prompt_len + 1
        if length >= max_len:
            continue
        verified = min(random.randint(0, num_drafts), max_len - length - 1)
        while True:
            exact = max(exact, length + verified)
            given = 1 + (verified if random.random() < 0.5 else random.randint(0, verified))
            if length + 1 >= max_len:
                break  # ends for certain
            bound = length + 1 + verified
            cap = min(random.choice([0, num_drafts]), max_len - length - 2)
            planned = max(planned, bound + cap)
            length += given
            if length >= max_len:
                exact = max(exact, length)  # a ghost feeds the last token
                break
            verified = min(cap, max_len - length - 1)
    return planned, exact


@pytest.mark.parametrize("num_drafts", [0, 1, 2, 5, 7])
def test_the_bound_is_kept_and_reached(num_drafts: int) -> None:
    config = make_config(num_drafts=num_drafts, max_model_len=40)
    planned, exact = farthest(config.max_model_len, num_drafts, 3000, Random(num_drafts))
    assert exact == config.max_model_len
    assert max(planned, exact) == config.runtime_max_model_len == config.max_model_len + max(num_drafts - 1, 0)


@pytest.mark.parametrize("num_drafts", [0, 1, 3])
def test_blocks_are_kept_for_no_more_than_the_longest_text(num_drafts: int) -> None:
    """What is reserved for a linked plan: the most that exact rows may come to, whatever the step in flight gives."""
    max_len = 12
    for length in range(2, max_len - 1):
        for verified in range(min(num_drafts, max_len - length - 1) + 1):
            for cap in range(min(num_drafts, max_len - length - 2) + 1):
                reserved = max(length + 1 + verified, min(length + 1 + verified + cap, max_len - 1))
                most = 0
                for given in range(1, verified + 2):
                    left = max(max_len - (length + given) - 1, 0)
                    most = max(most, length + given + min(cap, left))
                assert most == reserved <= max_len
