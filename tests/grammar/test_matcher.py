"""Trigger, bound token and rollback of the matcher, over an inner matcher that takes one fixed word."""

import random

import numpy as np
import pytest

from deepinfer.grammar.matcher import TriggeredMatcher
from tests.grammar.conftest import EOS, allowed_ids

FREE = set(range(259))


class WordMatcher:
    """Takes the ids of one word, then EOS."""

    def __init__(self, word):
        self.word = list(word)
        self.accepted = []

    @property
    def is_complete(self):
        return len(self.accepted) >= len(self.word)

    @property
    def is_terminated(self):
        return len(self.accepted) > len(self.word)

    def _next(self):
        return self.word[len(self.accepted)] if len(self.accepted) < len(self.word) else EOS

    def fill_mask(self, mask):
        mask.fill(0)
        mask.view(np.uint32)[self._next() >> 5] = 1 << (self._next() & 31)
        return True

    def accept(self, token_id):
        if self.is_terminated or token_id != self._next():
            return False
        self.accepted.append(token_id)
        return True

    def rollback(self, num_tokens):
        assert 0 <= num_tokens <= len(self.accepted)
        del self.accepted[len(self.accepted) - num_tokens :]


def feed(matcher, *token_ids):
    return [matcher.accept(token_id) for token_id in token_ids]


def test_without_trigger_the_first_token_is_constrained():
    matcher = TriggeredMatcher(WordMatcher(b"ab"))
    assert allowed_ids(matcher) == {ord("a")}
    assert feed(matcher, ord("b"), ord("a"), ord("b")) == [False, True, True]
    assert matcher.is_complete and not matcher.is_terminated and allowed_ids(matcher) == {EOS}
    assert feed(matcher, EOS) == [True] and matcher.is_terminated
    assert allowed_ids(matcher) == FREE and feed(matcher, 7, 8) == [True, True]  # drafts behind an EOS
    matcher.rollback(3)
    assert allowed_ids(matcher) == {EOS} and matcher.num_accepted == 2


@pytest.mark.parametrize(
    ("trigger", "stream", "starts_after"),
    [
        ([1, 1, 2], [1, 1, 1, 2], 4),  # overlaps itself
        ([1, 2, 1, 3], [1, 2, 1, 2, 1, 3], 6),
        ([5], [4, 5], 2),
        ([1, 1], [1, 2, 1, 1], 4),
        ([0, 0, 0], [0, 0, 1, 0, 0, 0], 6),
    ],
)
def test_trigger(trigger, stream, starts_after):
    matcher = TriggeredMatcher(WordMatcher(b"ab"), trigger)
    for place, token_id in enumerate(stream):
        assert allowed_ids(matcher) == FREE and not matcher.is_complete, place
        assert matcher.accept(token_id)
    assert len(stream) == starts_after and matcher.is_constrained and allowed_ids(matcher) == {ord("a")}


def test_trigger_equals_a_plain_search_for_random_streams():
    rng = random.Random(0)
    for _ in range(500):
        trigger = [rng.randrange(2) for _ in range(rng.randint(1, 5))]
        stream = [rng.randrange(2) for _ in range(20)]
        ends = [end for end in range(21) if stream[:end][-len(trigger) :] == trigger]
        matcher, count = TriggeredMatcher(WordMatcher(b"a"), trigger), 0
        while count < 20 and not matcher.is_constrained:
            matcher.accept(stream[count])
            count += 1
        assert count == (ends[0] if ends else 20), (trigger, stream)


def test_bound_token_forces_the_rest_of_the_trigger():
    matcher = TriggeredMatcher(WordMatcher(b"ab"), [1, 1, 2], bound=0)
    feed(matcher, 9, 1, 1)
    assert allowed_ids(matcher) == FREE
    assert matcher.accept(0)  # id 0 is valid; it broke the partial match
    for forced in (1, 1, 2):
        assert allowed_ids(matcher) == {forced}
        assert feed(matcher, 5, forced) == [False, True]
    assert allowed_ids(matcher) == {ord("a")}


def test_bound_token_that_is_part_of_the_trigger():
    matcher = TriggeredMatcher(WordMatcher(b"a"), [1, 2, 3], bound=2)
    feed(matcher, 1, 2)
    assert allowed_ids(matcher) == {3}
    matcher = TriggeredMatcher(WordMatcher(b"a"), [1, 2], bound=2)
    feed(matcher, 1, 2)
    assert allowed_ids(matcher) == {ord("a")}


def test_rollback_over_every_boundary():
    """Free text, bound, forced trigger, grammar, EOS and behind: any number of tokens back gives the state before."""
    stream = [9, 1, 0, 1, 1, 2, ord("a"), ord("b"), EOS, 3, 4]

    def after(count):
        matcher = TriggeredMatcher(WordMatcher(b"ab"), [1, 1, 2], bound=0)
        assert all(feed(matcher, *stream[:count]))
        return matcher

    for length in range(len(stream) + 1):
        for back in range(length + 1):
            matcher, fresh = after(length), after(length - back)
            matcher.rollback(back)
            state = (matcher.num_accepted, matcher.is_complete, matcher.is_terminated, allowed_ids(matcher))
            assert state == (fresh.num_accepted, fresh.is_complete, fresh.is_terminated, allowed_ids(fresh))
            assert all(feed(matcher, *stream[length - back :]))
    with pytest.raises(ValueError, match="take back 12"):
        after(11).rollback(12)
