"""Philox and the keys of random numbers."""

import numpy as np
import pytest

from deepinfer.sampling.purpose import Purpose
from deepinfer.sampling.rng import philox4x32, random_uint64
from deepinfer.sampling.seeds import derive_choice_seed, derive_job_seed, derive_request_seed, hash_prompt


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((0, 0, 30, 0), (42, 0), "0d048bed de24129f 996dff4c 4a357fc2"),
        ((0, 0, 31, 0), (42, 0), "4429196d c9b8a7bf a0ab64ba c5cb22a1"),
        ((0, 0, 32, 0), (42, 0), "a642fd96 2ddfdd4b ea3d49bf 175db07a"),
        ((0, 0, 36, 0), (42 + 1000000007, 0), "b99ed408 3a7290dd 110416df d7a90b05"),
        ((2**32 - 1,) * 4, (2**32 - 1,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ],
)
def test_known_answers(counter, key, words):
    result = philox4x32(np.array([counter], np.uint32), np.array([key], np.uint32))
    assert [f"{word:08x}" for word in result[0]] == words.split()


def test_rows_are_independent():
    rng = np.random.default_rng(0)
    counters = rng.integers(0, 2**32, (50, 4), dtype=np.uint32)
    keys = rng.integers(0, 2**32, (50, 2), dtype=np.uint32)
    whole = philox4x32(counters, keys)
    assert all(np.array_equal(philox4x32(counters[i : i + 1], keys[i : i + 1])[0], whole[i]) for i in range(50))


def test_every_part_of_the_key_matters():
    base = (7, hash_prompt(np.array([1, 2])), 3, Purpose.SAMPLE)
    others = [
        (8, *base[1:]),
        (7 + 2**32, *base[1:]),
        (7, hash_prompt(np.array([2, 1])), 3, Purpose.SAMPLE),
        (7, base[1], 4, Purpose.SAMPLE),
        *((7, base[1], 3, purpose) for purpose in Purpose if purpose is not Purpose.SAMPLE),
    ]
    words = {
        int(random_uint64([seed], [prompt], [index], purpose)[0]) for seed, prompt, index, purpose in [base, *others]
    }
    assert len(words) == 1 + len(others)


def test_words_are_uniform():
    words = random_uint64([1] * 4096, [2] * 4096, range(4096), Purpose.SAMPLE)
    for shift in (0, 30, 60):
        counts = np.bincount(((words >> np.uint64(shift)) & np.uint64(15)).astype(int), minlength=16)
        assert ((counts - 256) ** 2 / 256).sum() < 37.7  # chi-square, 15 degrees, p = 0.001


def test_derived_seeds_are_fixed_and_distinct():
    assert derive_choice_seed(5, 0) == 5 and derive_choice_seed(-1, 0) == 2**64 - 1
    seeds = {derive_request_seed(0, number) for number in range(100)} | {derive_request_seed(1, 0)}
    seeds |= {derive_choice_seed(5, choice) for choice in range(100)} | {
        derive_job_seed(0, "a"),
        derive_job_seed(0, "b"),
    }
    assert len(seeds) == 203 and all(0 <= seed < 2**64 for seed in seeds)
    # Fixed for ever: a change would change every seeded result.
    assert derive_request_seed(0, 0) == 0x367189CC3B1288D7
    assert (
        hash_prompt(np.array([0, 1, 2], np.int32)) == hash_prompt(np.array([0, 1, 2], np.int64)) == 0xA51702D9E3104283
    )
