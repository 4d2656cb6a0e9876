"""A scheduler that plans the kind of step that several replicas have agreed on."""

import numpy as np
import pytest

from deepinfer._C import Scheduler, SequenceSpec
from tests.core.fake_worker import make_config, prompt_of


def sequence(seq_id):
    ids = np.asarray(prompt_of(3), dtype=np.int32)
    return SequenceSpec(seq_id=seq_id, prompt_token_ids=ids, max_tokens=4, stop_token_ids=np.empty(0, dtype=np.int32))


def test_the_agreed_kind_is_planned_or_nothing():
    scheduler = Scheduler(make_config())
    assert scheduler.vote() == (False, False)
    assert scheduler.schedule("prefill").num_seqs == scheduler.schedule("decode").num_seqs == 0
    scheduler.add(sequence(0))
    assert scheduler.vote() == (True, False)
    assert scheduler.schedule("decode").num_seqs == 0 and not scheduler.steps_in_flight
    plan = scheduler.schedule("prefill")
    scheduler.update(plan.step_id, [7], [0, 1])
    assert plan.kind == "prefill" and scheduler.vote() == (False, True)
    scheduler.add(sequence(1))
    assert scheduler.vote() == (True, True)
    plan = scheduler.schedule("decode")  # by itself it would prefill
    assert plan.kind == "decode" and plan.seq_ids.tolist() == [0]
    scheduler.discard(plan.step_id)
    assert scheduler.schedule().kind == "prefill"
    scheduler.check()


def test_another_kind_is_refused():
    with pytest.raises(ValueError, match="kind = empty"):
        Scheduler(make_config()).schedule("empty")
