"""Forks as Python sees them: array shapes, texts on every prompt length and in caches that are too small."""

from __future__ import annotations

import numpy as np
import pytest

from deepinfer._C import SequenceSpec
from tests.core.fake_worker import FORK_STRIDE, Driver, choice_of, expected_output, make_config, prompt_of


def run_family(driver: Driver, prompt_len: int, num_forks: int, max_tokens: int = 9, stops: list[int] | None = None):
    spec = driver.add(0, prompt_of(prompt_len), max_tokens, stops, num_forks=num_forks)
    plans = driver.run()
    for seq_id in (0, *spec.fork_seq_ids.tolist()):
        outcome = (driver.outputs[seq_id], driver.reasons[seq_id])
        assert outcome == expected_output(spec, driver.config, choice_of(seq_id))
    return plans


def test_arrays():
    spec = SequenceSpec(0, [1, 2], 4, [], 0, [7, 8])
    assert spec.fork_seq_ids.tolist() == [7, 8] and spec.fork_seq_ids.dtype == np.int64
    driver = Driver(make_config())
    first, second, *_ = run_family(driver, 6, 2)
    assert (first.fork_seq_ids.dtype, first.cu_forks.dtype) == (np.int64, np.int32)
    assert first.cu_forks.tolist() == [0, 2] and second.cu_forks.tolist() == [0, 0, 0, 0]
    for copies in (second.slot_copies, second.block_copies):
        assert copies.shape == (2, 2) and copies.dtype == np.int32 and not copies.flags.writeable
    assert first.slot_copies.shape == first.block_copies.shape == (0, 2)


@pytest.mark.parametrize("prompt_len", [1, 3, 4, 5, 7, 8, 9])
@pytest.mark.parametrize("changes", [{}, {"max_prefill_chunk": 3}, {"max_num_batched_tokens": 2}])
def test_one_prefill_on_every_prompt_length(prompt_len, changes):
    driver = Driver(make_config(**changes))
    plans = run_family(driver, prompt_len, 3)
    assert sum(plan.num_tokens for plan in plans if plan.kind == "prefill") == prompt_len
    num_copied = sum(len(plan.block_copies) for plan in plans)
    assert num_copied == (3 if prompt_len % 4 else 0) and sum(len(plan.slot_copies) for plan in plans) == 3
    assert driver.scheduler.stats().num_forked == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"max_num_seqs": 1},
        {"max_num_seqs": 3},
        {"num_state_slots": 2},
        {"num_blocks": 3},
        {"num_blocks": 4, "max_prefill_chunk": 2},
        {"max_num_seqs": 2, "enable_chunked_prefill": False},
    ],
)
def test_forks_without_room_compute_the_prompt_again(changes):
    for prompt_len in (3, 4, 5, 8):
        driver = Driver(make_config(**changes))
        run_family(driver, prompt_len, 5, max_tokens=4, stops=[2])
        stats = driver.scheduler.stats()
        assert stats.num_added == 6 == stats.num_finished_stop + stats.num_finished_length


def test_many_forks_and_many_families():
    driver = Driver(make_config(num_blocks=40, max_num_seqs=8))
    specs = [driver.add(seq_id, prompt_of(5 + seq_id), 6, num_forks=seq_id % 4) for seq_id in range(12)]
    driver.run()
    for spec in specs:
        for seq_id in (spec.seq_id, *spec.fork_seq_ids.tolist()):
            assert driver.outputs[seq_id] == expected_output(spec, driver.config, choice_of(seq_id))[0]
    assert driver.scheduler.stats().num_forked == sum(len(spec.fork_seq_ids) for spec in specs)
    big = Driver(make_config(num_blocks=2000, num_state_slots=300, max_num_seqs=300, max_num_batched_tokens=300))
    run_family(big, 30, 250, max_tokens=2)


def test_the_fake_worker_notices_a_missing_copy():
    driver = Driver(make_config())
    driver.worker._copy = lambda plan: None
    with pytest.raises((AssertionError, KeyError)):
        run_family(driver, 6, 2)


def test_shared_blocks_are_never_written_again():
    driver = Driver(make_config())
    driver.add(0, prompt_of(10), 8, num_forks=2)
    driver.step()
    plan = driver.step()
    tables = [plan.block_ids[plan.cu_blocks[i] : plan.cu_blocks[i + 1]].tolist() for i in range(3)]
    assert len({tuple(table[:2]) for table in tables}) == 1 and len({table[2] for table in tables}) == 3
    before = {key: entry for key, entry in driver.worker.cache.items() if key[0] in tables[0][:2]}
    driver.run()
    assert before == {key: driver.worker.cache[key] for key in before}
    assert {owner for owner, _ in before.values()} == {0} and choice_of(FORK_STRIDE) == 1
