"""Ends from outside, the schedule-update protocol, and the statistics of the scheduler."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

from deepinfer._C import Scheduler
from tests.core.fake_worker import Driver, expected_output, make_config, prompt_of


class TestAbortAndFinish:
    @pytest.mark.parametrize("num_steps", [0, 1, 2, 3])
    def test_abort_frees_at_once_in_every_state(self, num_steps):
        driver = Driver(make_config(max_prefill_chunk=8))
        driver.add(1, prompt_of(12), 8)  # waits, is between chunks, decodes
        for _ in range(num_steps):
            driver.step()
        assert driver.scheduler.abort(1)
        assert not driver.scheduler.abort(1)
        driver.scheduler.check()
        assert not driver.scheduler.has_unfinished()
        assert driver.scheduler.num_free_blocks == 64
        assert driver.scheduler.schedule().kind == "empty"
        with pytest.raises(ValueError, match="sequence 1 is not known"):
            driver.scheduler.token_ids(1)

    def test_a_preempted_sequence_can_be_aborted(self):
        driver = Driver(make_config(num_blocks=4))
        driver.add(1, prompt_of(7), 8)
        driver.add(2, prompt_of(7), 8)
        while 2 not in driver.step().preempted_seq_ids:
            pass
        assert driver.scheduler.abort(2)
        driver.run()
        assert list(driver.reasons) == [1]

    @pytest.mark.parametrize("end", ["abort", "finish"])
    def test_a_sequence_that_ends_during_its_step_is_not_mentioned_again(self, end):
        driver = Driver(make_config())
        driver.add(1, prompt_of(3), 5)
        driver.add(2, prompt_of(3), 5)
        plan = driver.scheduler.schedule()
        tokens, cu_tokens = driver.worker.execute(plan)
        assert driver.scheduler.abort(1) if end == "abort" else driver.scheduler.finish(1, 0)
        driver.finish_step(plan, tokens, cu_tokens)
        driver.run()
        assert list(driver.outputs) == [2]

    def test_finish_keeps_a_part_and_counts_it(self):
        driver = Driver(make_config())
        driver.add(1, prompt_of(3), 9)
        for _ in range(5):
            driver.step()
        with pytest.raises(ValueError, match="keep_tokens is 6, but 5 tokens were generated"):
            driver.scheduler.finish(1, 6)
        assert driver.scheduler.finish(1, 2)
        assert not driver.scheduler.finish(1, 2)
        stats = driver.scheduler.stats()
        assert (stats.num_generated_tokens, stats.num_finished_external) == (2, 1)
        driver.run()

    def test_abort_from_other_threads(self):
        driver = Driver(make_config())
        for seq_id in range(200):
            driver.add(seq_id, prompt_of(5), 30)
        aborted: list[int] = []

        def abort_some(first: int) -> None:
            aborted.extend(i for i in range(first, 200, 4) if driver.scheduler.abort(i))

        threads = [threading.Thread(target=abort_some, args=(first,)) for first in (0, 1)]
        for thread in threads:
            thread.start()
        driver.run(5000)
        for thread in threads:
            thread.join()
        assert len(set(aborted)) == len(aborted)
        assert len(driver.reasons) + len(aborted) == 200


class TestProtocol:
    def test_an_idle_scheduler_plans_nothing(self):
        scheduler = Scheduler(make_config())
        plan = scheduler.schedule()
        assert (plan.kind, plan.num_seqs, plan.num_tokens) == ("empty", 0, 0)
        assert plan.lookback_ids.shape == (0, 3)
        assert scheduler.update(plan.step_id, [], [0]).seq_ids.size == 0
        assert scheduler.stats().num_steps == 0

    def test_a_prefill_step_is_to_be_booked_before_the_next(self):
        driver = Driver(make_config())
        driver.add(1, [1], 4)
        driver.scheduler.schedule()
        with pytest.raises(RuntimeError, match="prefill step 0 is in flight"):
            driver.scheduler.schedule()

    @pytest.mark.parametrize(
        ("step_id", "tokens", "cu_tokens", "message"),
        [
            (7, [1], [0, 1], "step_id is 7, but step 0 is in flight"),
            (0, [], [0, 0], "sequence 1 got 0 tokens; this step gives it 1"),
            (0, [1, 2], [0, 2], "sequence 1 got 2 tokens; this step gives it 1"),
            (0, [1], [0, 1, 1], "cu_tokens has 3 entries"),
            (0, [1], [0, 0], "must go from 0 to the number of tokens, 1"),
            (0, [-1], [0, 1], r"tokens\[0\] is -1"),
        ],
    )
    def test_a_wrong_update_changes_nothing(self, step_id, tokens, cu_tokens, message):
        driver = Driver(make_config())
        driver.add(1, [1], 4)
        plan = driver.scheduler.schedule()
        with pytest.raises(ValueError, match=message):
            driver.scheduler.update(step_id, tokens, cu_tokens)
        driver.scheduler.check()
        driver.finish_step(plan, *driver.worker.execute(plan))
        assert len(driver.outputs[1]) == 1

    def test_a_failed_step_can_be_discarded(self):
        config = make_config(max_prefill_chunk=4)
        driver = Driver(config)
        spec = driver.add(1, prompt_of(10), 4)
        for turn in range(100):
            if not driver.scheduler.has_unfinished():
                break
            if turn % 2:
                plan = driver.scheduler.schedule()
                driver.worker.execute(plan)
                driver.worker.states[0] = (1, int(plan.context_lens[0]))
                driver.scheduler.discard(plan.step_id)
                driver.scheduler.check()
            else:
                driver.step()
        assert (driver.outputs[1], driver.reasons[1]) == expected_output(spec, config)

    def test_arrays_are_read_only_and_outlive_the_scheduler(self):
        driver = Driver(make_config())
        driver.add(1, [4, 5, 6], 4)
        plan = driver.scheduler.schedule()
        token_ids, samples = plan.token_ids, plan.samples
        types = {name: getattr(plan, name).dtype for name in ("seq_ids", "positions", "samples", "preempted_seq_ids")}
        assert types == {"seq_ids": np.int64, "positions": np.int32, "samples": np.bool_, "preempted_seq_ids": np.int64}
        with pytest.raises(ValueError, match="read-only"):
            token_ids[0] = 9
        del plan, driver
        gc.collect()
        assert (token_ids.tolist(), samples.tolist()) == ([4, 5, 6], [True])

    def test_stats_add_up(self):
        driver = Driver(make_config(num_blocks=12))
        for seq_id in range(6):
            driver.add(seq_id, prompt_of(9), 12, [seq_id])
        plans = driver.run()
        stats = driver.scheduler.stats()
        assert stats.num_added == 6 == stats.num_finished_stop + stats.num_finished_length
        assert stats.num_steps == len(plans) == stats.num_prefill_steps + stats.num_decode_steps
        assert stats.num_prefill_tokens + stats.num_decode_tokens == sum(plan.num_tokens for plan in plans)
        assert stats.num_generated_tokens == sum(len(output) for output in driver.outputs.values())
        assert stats.num_prefill_tokens - stats.num_recomputed_tokens >= 6 * 9
