"""What ranks in lockstep measured, between and beyond the points they measured it at."""

import pytest

from deepinfer.bench.planner.lockstep_costs import LockstepCosts

COSTS = LockstepCosts.parse({"exchange": [[4000, 30.0], [1000, 15.0]], "host": [[4, 0.5], [1, 0.2], [8, 0.9]]})


def test_exchange_by_what_a_rank_sends():
    """Rows of 2 * 40 bytes with 8 for each of 3 picks, and 3 outputs of 80 bytes, to each other rank."""
    assert COSTS.exchange_us(5, 3, 40, 1) == 0.0
    assert COSTS.exchange_us(10, 3, 40, 2) == pytest.approx(15 + 15 * (3440 - 1000) / 3000)
    assert COSTS.exchange_us(10, 3, 40, 3) == pytest.approx(15 + 15 * (2 * 3440 - 1000) / 3000)
    assert COSTS.exchange_us(1, 3, 40, 2) == 15.0


def test_host_by_sequences():
    assert COSTS.host_us(4, 1) == 0.0
    assert [COSTS.host_us(seqs, 2) for seqs in (1, 2.5, 4, 8, 100)] == pytest.approx([200, 350, 500, 900, 900])


@pytest.mark.parametrize("value", [{"exchange": [], "host": [[1, 2]]}, {"exchange": [[1, 2]], "host": 3}, [1]])
def test_what_is_no_measurement(value):
    with pytest.raises((TypeError, ValueError)):
        LockstepCosts.parse(value)
