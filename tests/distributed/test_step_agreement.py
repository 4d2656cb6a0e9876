"""Ranks that vote decide alike, never stand still, and end all requests."""

from hypothesis import given, settings
from hypothesis import strategies as st

from deepinfer.engine.step_agreement import StepAgreement, StepVote


def vote(prefill=0, decode=0, work=None, wakes=0):
    return StepVote(prefill, decode, int(prefill or decode) if work is None else work, wakes)


def test_when_a_prefill_step_comes():
    agreement = StepAgreement(all_interval=2, any_interval=5)
    assert agreement.decide([vote(), vote()]) is None
    assert agreement.decide([vote(prefill=1), vote()]) == "prefill"  # nobody decodes
    one, both = [vote(prefill=1), vote(decode=1)], [vote(prefill=1), vote(prefill=1, decode=1)]
    kinds = []
    for _ in range(6):
        kinds.append(agreement.decide(one))
        agreement.confirm(kinds[-1], 1)
    assert kinds == ["decode"] * 5 + ["prefill"]
    assert agreement.decide(both) == "prefill"  # right behind a prefill step all are asked
    agreement.confirm("decode", 1)
    assert agreement.decide(both) == "decode"
    agreement.confirm("decode", 1)
    assert agreement.decide([*both, vote()]) == "prefill"  # a rank without work has no say


def test_a_prefill_of_nobody_gives_way():
    agreement = StepAgreement(1, 8, num_decodes=3)
    assert agreement.confirm("prefill", 0) == "decode" and agreement.confirm("decode", 0) is None
    assert agreement.num_decodes == 3
    assert agreement.confirm("decode", 1) == "decode" and agreement.num_decodes == 4
    assert agreement.confirm("prefill", 2) == "prefill" and agreement.num_decodes == 0


def test_ranks_sleep_only_when_all_know_the_same():
    assert StepAgreement.may_sleep([vote(wakes=4), vote(wakes=4)])
    assert not StepAgreement.may_sleep([vote(wakes=4), vote(wakes=5)])
    assert not StepAgreement.may_sleep([vote(wakes=4), vote(work=1, wakes=4)])


class Rank:
    """Requests as [arrival, prompt chunks, tokens], prefilled one chunk a step, two at a time."""

    def __init__(self, requests, intervals):
        self.agreement = StepAgreement(*intervals)
        self.coming = sorted(list(request) for request in requests)
        self.waiting, self.running = [], []

    def vote(self, now):
        while self.coming and self.coming[0][0] <= now:
            self.waiting.append(self.coming.pop(0)[1:])
        return vote(int(bool(self.waiting) and len(self.running) < 2), int(bool(self.running)))

    def plan(self, kind):
        return bool(self.waiting and len(self.running) < 2) if kind == "prefill" else bool(self.running)

    def run(self, kind):
        if kind == "prefill" and self.plan(kind):
            self.waiting[0][0] -= 1
            if self.waiting[0][0] == 0:
                self.running.append(self.waiting.pop(0))
        elif kind == "decode":
            for request in self.running:
                request[1] -= 1
            self.running = [request for request in self.running if request[1] > 0]


REQUESTS = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 3), st.integers(1, 12)), max_size=6)


@given(st.lists(REQUESTS, min_size=1, max_size=5), st.integers(1, 9), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_all_requests_end_in_equal_steps(requests, all_interval, any_interval):
    ranks = [Rank(own, (all_interval, any_interval)) for own in requests]
    for now in range(2000):
        votes = [rank.vote(now) for rank in ranks]
        kinds = {rank.agreement.decide(votes) for rank in ranks}
        assert len(kinds) == 1
        kind = kinds.pop()
        while kind is not None:
            num_planned = sum(rank.plan(kind) for rank in ranks)
            confirmed = {rank.agreement.confirm(kind, num_planned) for rank in ranks}
            assert len(confirmed) == 1
            if confirmed == {kind}:
                for rank in ranks:
                    rank.run(kind)
                break
            kind = confirmed.pop()
        if not any(rank.coming or rank.waiting or rank.running for rank in ranks):
            return
    raise AssertionError("requests are left")
