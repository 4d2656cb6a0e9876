"""Layer roles of the published layout against the table of the specification, and the Engram primes."""

from deepinfer.config.engram_primes import engram_primes
from deepinfer.config.model_config import DeepSeekV41Config


def test_published_layout(flash):
    plans = DeepSeekV41Config.from_dict(flash).layer_plans
    assert [plan.layer_id for plan in plans] == list(range(40))
    assert [plan.ratio for plan in plans] == [0, 0] + 18 * [2] + 20 * [1]
    assert [plan.kv_source for plan in plans] == [None] * 2 + 6 * [2] + 6 * [8] + 6 * [14] + 20 * [20]
    index = [None] * 2 + 6 * [2] + 6 * [8] + 6 * [14] + 4 * [20] + 4 * [24] + 4 * [28] + 4 * [32] + 4 * [36]
    assert [plan.index_source for plan in plans] == index
    assert [plan.layer_id for plan in plans if plan.owns_kv] == [2, 8, 14, 20]
    assert [plan.layer_id for plan in plans if plan.owns_index] == [2, 8, 14, 20, 24, 28, 32, 36]
    assert [plan.layer_id for plan in plans if plan.is_candidate_source] == [20]
    assert [plan.layer_id for plan in plans if plan.uses_candidates] == [24, 28, 32, 36]
    assert {plan.layer_id: plan.engram_index for plan in plans if plan.engram_index is not None} == {1: 0, 14: 1}


def test_no_candidates(bare):
    plans = DeepSeekV41Config.from_dict(bare).layer_plans
    assert not any(plan.uses_candidates or plan.is_candidate_source for plan in plans)


def test_engram_primes_of_the_published_tables():
    first, second = engram_primes(16_000_000, 3, 8, 2)
    assert first[0] == (16000057, 16000079, 16000081, 16000097, 16000121, 16000129, 16000133, 16000183)
    assert second[2][-1] == 16000889
    assert [sum(map(sum, table)) for table in (first, second)] == [384006168, 384016682]


def test_engram_primes_start_inclusive_and_small():
    assert engram_primes(1, 2, 2, 1) == (((2, 3), (5, 7)),)
    assert engram_primes(97, 1, 2, 2) == (((97, 101),), ((103, 107),))
