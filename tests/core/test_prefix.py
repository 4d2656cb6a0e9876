"""Saved prefixes: whose blocks are kept, what is computed again, and that nothing is lost or held for ever."""

from __future__ import annotations

import numpy as np
import pytest

from tests.core.fake_worker import Driver, expected_output, make_config, prompt_of

REPLAY = {"replay_tokens": 5, "replay_multiple": 2}


def saved(driver: Driver, length: int = 22, max_tokens: int = 4) -> tuple[int, list[int]]:
    """A finished sequence 0 and its saved prefix: id and tokens."""
    driver.add(0, prompt_of(length), max_tokens)
    driver.run()
    prefix = driver.scheduler.save_prefix(0)
    driver.scheduler.check()
    tokens = driver.scheduler.prefix_token_ids(prefix).tolist()
    driver.num_held = -(-len(tokens) // driver.config.block_size)
    return prefix, tokens


def test_a_finished_text_is_saved_without_its_last_token() -> None:
    driver = Driver(make_config(**REPLAY))
    prefix, tokens = saved(driver)
    assert tokens == prompt_of(22) + driver.outputs[0][:3]
    assert driver.scheduler.num_free_blocks == 64 - 7
    assert driver.scheduler.close_prefix(prefix) and not driver.scheduler.close_prefix(prefix)
    driver.scheduler.check()
    assert driver.scheduler.num_free_blocks == 64
    with pytest.raises(ValueError, match="prefix 0 is not known"):
        driver.scheduler.prefix_token_ids(prefix)


@pytest.mark.parametrize("common", range(26))
def test_only_the_last_window_of_common_tokens_is_computed_again(common: int) -> None:
    driver = Driver(make_config(**REPLAY))
    prefix, tokens = saved(driver)
    text = [*tokens[:common], (tokens[common] + 1) % 7 if common < len(tokens) else 3, 5, 6]
    spec = driver.add(1, text, 6, prefix_id=prefix)
    plan = driver.step()
    start = max(0, common - 5) // 2 * 2
    assert (plan.context_lens.tolist(), plan.window_starts.tolist()) == ([start], [start])
    assert plan.entry_starts.tolist() == [common if start else 0]
    assert plan.num_tokens == len(text) - start
    driver.run()
    assert (driver.outputs[1], driver.reasons[1]) == expected_output(spec, driver.config)
    assert driver.scheduler.stats().num_recomputed_tokens == 0


def test_the_last_token_is_always_computed() -> None:
    driver = Driver(make_config(**REPLAY))
    prefix, tokens = saved(driver)
    spec = driver.add(1, tokens, 3, prefix_id=prefix)
    assert driver.step().entry_starts.tolist() == [len(tokens) - 1]
    driver.run()
    assert driver.outputs[1] == expected_output(spec, driver.config)[0]


def test_chunks_forks_and_preemption_on_a_prefix() -> None:
    driver = Driver(make_config(num_blocks=22, max_prefill_chunk=3, max_num_batched_tokens=8, num_drafts=2, **REPLAY))
    prefix, tokens = saved(driver, 21, 3)
    specs = [driver.add(i, [*tokens[: 20 + i], 1, 2, 3], 20, num_forks=i % 3, prefix_id=prefix) for i in (1, 2, 3)]
    driver.scheduler.close_prefix(prefix)  # those that begin on it keep it
    with pytest.raises(ValueError, match="prefix 0 is not known, or was closed"):
        driver.add(9, tokens, 3, prefix_id=prefix)
    driver.num_held = 0
    driver.run()
    assert driver.scheduler.stats().num_preemptions > 0
    for spec in specs:
        for choice, seq_id in enumerate([spec.seq_id, *spec.fork_seq_ids.tolist()]):
            assert (driver.outputs[seq_id], driver.reasons[seq_id]) == expected_output(spec, driver.config, choice)


def test_a_running_sequence_can_be_saved_and_a_discarded_step_repeats_its_copy() -> None:
    driver = Driver(make_config(**REPLAY))
    driver.add(0, prompt_of(18), 8)
    with pytest.raises(ValueError, match="nothing of sequence 0 is in the caches: it waits"):
        driver.scheduler.save_prefix(0)
    for _ in range(4):
        driver.step()
    prefix = driver.scheduler.save_prefix(0)
    tokens = driver.scheduler.prefix_token_ids(prefix).tolist()
    assert tokens == prompt_of(18) + driver.outputs[0][:3]
    spec = driver.add(1, [*tokens, 2], 5, prefix_id=prefix)
    plan = driver.scheduler.schedule()
    assert len(plan.block_copies) == 1 and len(plan.slot_copies) == 0
    driver.scheduler.discard(plan.step_id)
    driver.scheduler.check()
    assert np.array_equal(driver.step().block_copies, plan.block_copies)
    driver.num_held = 6
    driver.run()
    assert driver.outputs[1] == expected_output(spec, driver.config)[0]
    assert driver.scheduler.abort(1) is False


def test_blocks_that_were_used_again_cannot_be_saved() -> None:
    driver = Driver(make_config(num_blocks=8, **REPLAY))
    driver.add(0, prompt_of(9), 2)
    driver.run()
    driver.add(1, prompt_of(30, first=1), 2)
    driver.run()
    with pytest.raises(ValueError, match="sequence 0 is in the caches: it never began, was aborted"):
        driver.scheduler.save_prefix(0)
    with pytest.raises(ValueError, match="sequence 7"):
        driver.scheduler.save_prefix(7)
    assert driver.scheduler.save_prefix(1) == 0


def test_prefixes_leave_room_for_the_unfinished_and_count_against_the_capacity() -> None:
    driver = Driver(make_config(num_blocks=10, **REPLAY))
    driver.add(0, prompt_of(21), 2)
    driver.run()
    driver.add(1, prompt_of(4), 14)
    with pytest.raises(ValueError, match="would take 6 of 10 cache blocks.*may need 5"):
        driver.scheduler.save_prefix(0)
    driver.scheduler.abort(1)
    prefix = driver.scheduler.save_prefix(0)
    driver.num_held = 6
    with pytest.raises(ValueError, match="needs 5 cache blocks.*prefixes hold 6"):
        driver.add(2, prompt_of(17), 1)
    spec = driver.add(3, prompt_of(15), 30)
    driver.run()
    assert driver.outputs[3] == expected_output(spec, driver.config)[0][:2], "cut where the prefixes begin"
    assert driver.scheduler.close_prefix(prefix)
    assert driver.scheduler.num_free_blocks == 10


def test_two_prefixes_of_one_text_share_its_blocks() -> None:
    driver = Driver(make_config(num_blocks=10, **REPLAY))
    first, _ = saved(driver, 21, 2)
    second = driver.scheduler.save_prefix(0)
    driver.scheduler.check()
    assert driver.scheduler.num_free_blocks == 4
    driver.scheduler.close_prefix(first)
    driver.scheduler.check()
    assert driver.scheduler.num_free_blocks == 4
    driver.scheduler.close_prefix(second)
    assert driver.scheduler.num_free_blocks == 10


def test_finish_saves_what_was_kept() -> None:
    driver = Driver(make_config(**REPLAY))
    driver.add(0, prompt_of(10), 12)
    for _ in range(6):
        driver.step()
    driver.scheduler.finish(0, 2)
    prefix = driver.scheduler.save_prefix(0)
    assert driver.scheduler.prefix_token_ids(prefix).tolist() == prompt_of(10) + driver.outputs[0][:2]


def test_a_sequence_saved_after_every_step_takes_its_blocks_once() -> None:
    driver = Driver(make_config(num_blocks=10, **REPLAY))
    driver.add(0, prompt_of(3), 15)
    prefixes = []
    while driver.scheduler.has_unfinished():
        driver.step()
        prefixes += [driver.scheduler.save_prefix(0)]
        driver.scheduler.check()
    assert [len(driver.scheduler.prefix_token_ids(prefix)) for prefix in prefixes] == [*range(3, 18), 17][:15]
    assert driver.scheduler.num_free_blocks == 5
    for prefix in prefixes:
        driver.scheduler.close_prefix(prefix)
        driver.scheduler.check()
    assert driver.scheduler.num_free_blocks == 10


@pytest.mark.parametrize("max_tokens", [0, 1])
def test_a_waiting_prompt_keeps_the_room_for_all_of_its_tokens(max_tokens: int) -> None:
    """One that is only computed feeds its last token too."""
    driver = Driver(make_config(num_blocks=10, **REPLAY))
    driver.add(0, prompt_of(22), 2)
    driver.run()
    driver.add(1, prompt_of(17, first=1), max_tokens)
    with pytest.raises(ValueError, match="would take 6 of 10 cache blocks.*may need 5; close other prefixes"):
        driver.scheduler.save_prefix(0)
    driver.run()


def test_a_block_that_waits_for_its_copy_is_not_saved() -> None:
    """A window much smaller than a block: what is skipped ends in the block that is to be copied."""
    driver = Driver(make_config(block_size=8, replay_tokens=1, replay_multiple=2))
    prefix, tokens = saved(driver, 15, 2)
    driver.add(1, [*tokens[:15], 1], 5, prefix_id=prefix)
    plan = driver.scheduler.schedule()
    assert plan.context_lens.tolist() == [14] and len(plan.block_copies) == 1
    with pytest.raises(ValueError, match="sequence 1 is in the caches: it waits"):
        driver.scheduler.save_prefix(1)
    driver.scheduler.discard(plan.step_id)
    assert driver.scheduler.finish(1, 0)
    with pytest.raises(ValueError, match="sequence 1 is in the caches: it never began"):
        driver.scheduler.save_prefix(1)
    driver.run()


def test_what_was_aborted_cannot_be_saved() -> None:
    driver = Driver(make_config(**REPLAY))
    driver.add(0, prompt_of(9), 9)
    driver.step()
    assert driver.scheduler.is_in_caches(0)
    driver.scheduler.abort(0)
    assert not driver.scheduler.is_in_caches(0)
    with pytest.raises(ValueError, match="it never began, was aborted or failed"):
        driver.scheduler.save_prefix(0)
