"""What the scheduler promises, rule by rule."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from deepinfer._C import Scheduler, SequenceSpec
from tests.core.fake_worker import Driver, expected_output, make_config, prompt_of


def rows(plan) -> list[int]:
    return np.diff(plan.cu_seqlens_q).tolist()


class TestConfig:
    @pytest.mark.parametrize(
        "name",
        ["num_blocks", "block_size", "num_state_slots", "max_num_seqs", "max_num_batched_tokens", "max_prefill_chunk"]
        + ["max_model_len"],
    )
    def test_a_zero_is_refused_by_name(self, name):
        with pytest.raises(ValueError, match=f"{name} is 0; it must be 1"):
            make_config(**{name: 0})

    def test_too_many_drafts_are_refused(self):
        with pytest.raises(ValueError, match=r"num_drafts is 65; it must be 0\.\.64"):
            make_config(num_drafts=65)
        with pytest.raises(ValueError, match=r"max_num_batched_tokens is 3; it must be 4\.\."):
            make_config(num_drafts=3, max_num_batched_tokens=3)

    def test_fields_read_back(self):
        config = Scheduler(make_config(enable_chunked_prefill=False, num_drafts=2, varlen=True)).config
        assert (config.num_blocks, config.block_size, config.num_lookback) == (64, 4, 3)
        assert (config.enable_chunked_prefill, config.num_drafts, config.varlen) == (False, 2, True)


class TestAdd:
    @pytest.mark.parametrize(
        ("prompt", "changes", "message"),
        [
            ([], {}, "sequence 5: the prompt is empty"),
            ([1] * 65, {}, "has 65 tokens, max_model_len is 64"),
            ([1] * 40, {"num_blocks": 4, "block_size": 8}, "needs 5 cache blocks.*capacity of 32 tokens"),
            ([1] * 33, {"enable_chunked_prefill": False}, "has 33 tokens, max_num_batched_tokens is 32"),
            ([1, -2], {}, r"prompt_token_ids\[1\] is -2"),
        ],
    )
    def test_a_prompt_that_cannot_run_is_refused_with_the_figures(self, prompt, changes, message):
        scheduler = Scheduler(make_config(**changes))
        with pytest.raises(ValueError, match=message):
            scheduler.add(SequenceSpec(5, prompt, 4, []))
        assert not scheduler.has_unfinished()

    def test_an_id_in_use_is_refused(self):
        scheduler = Scheduler(make_config())
        scheduler.add(SequenceSpec(5, [1], 4, []))
        with pytest.raises(ValueError, match="sequence 5: the id is in use"):
            scheduler.add(SequenceSpec(5, [1], 4, []))

    @pytest.mark.parametrize("wrong", [[1.0, 2.0], [True], "12", [[1]], np.zeros((2, 2), np.int32), [None]])
    def test_ids_of_a_wrong_type_are_refused(self, wrong):
        with pytest.raises(TypeError, match="prompt_token_ids must be a one-dimensional array of integers"):
            SequenceSpec(0, wrong, 1, [])

    def test_an_id_outside_int32_is_refused(self):
        with pytest.raises(ValueError, match=r"prompt_token_ids\[1\] is 2147483648"):
            SequenceSpec(0, [1, 2**31], 1, [])

    @pytest.mark.parametrize("ids", [[1, 2], (1, 2), np.array([1, 2], np.int64), np.array([1, 9, 2, 9], np.int32)[::2]])
    def test_any_integers_are_taken(self, ids):
        assert SequenceSpec(0, ids, 1, ()).prompt_token_ids.tolist() == [1, 2]


class TestPrefill:
    def test_a_prompt_is_cut_into_chunks_and_samples_once(self):
        driver = Driver(make_config(max_prefill_chunk=6))
        driver.add(1, prompt_of(15), 1)
        plans = driver.run()
        assert [rows(plan) for plan in plans] == [[6], [6], [3]]
        assert [plan.context_lens.tolist() for plan in plans] == [[0], [6], [12]]
        assert [plan.samples.tolist() for plan in plans] == [[False], [False], [True]]

    @pytest.mark.parametrize("chunk", [1, 2, 3, 5, 7, 8, 9, 16, 64])
    @pytest.mark.parametrize("block_size", [4, 8])
    def test_text_does_not_depend_on_chunks(self, chunk, block_size):
        config = make_config(max_prefill_chunk=chunk, max_num_batched_tokens=chunk, block_size=block_size)
        driver = Driver(config)
        specs = [driver.add(n, prompt_of(n, n), 10) for n in (1, 7, 8, 9, 33, 40)]
        driver.run()
        for spec in specs:
            assert (driver.outputs[spec.seq_id], driver.reasons[spec.seq_id]) == expected_output(spec, config)

    def test_the_budget_is_shared_in_order_of_arrival(self):
        driver = Driver(make_config(max_num_batched_tokens=10, max_prefill_chunk=6))
        for seq_id in (1, 2, 3):
            driver.add(seq_id, prompt_of(8), 1)
        plans = [driver.step() for _ in range(3)]
        assert [plan.seq_ids.tolist() for plan in plans] == [[1, 2], [1, 2, 3], [3]]
        assert [rows(plan) for plan in plans] == [[6, 4], [2, 4, 4], [4]]

    def test_without_chunking_a_prompt_is_never_cut(self):
        driver = Driver(make_config(enable_chunked_prefill=False, max_num_batched_tokens=10, max_prefill_chunk=3))
        for seq_id in (1, 2, 3):
            driver.add(seq_id, prompt_of(7), 1)
        assert [rows(plan) for plan in driver.run()] == [[7], [7], [7]]

    def test_prefill_goes_before_decode_and_a_newcomer_does_not_wait(self):
        driver = Driver(make_config())
        driver.add(1, prompt_of(4), 20)
        assert [driver.step().kind for _ in range(2)] == ["prefill", "decode"]
        driver.add(2, prompt_of(4), 20)
        plan = driver.step()
        assert (plan.kind, plan.seq_ids.tolist()) == ("prefill", [2])
        assert driver.step().seq_ids.tolist() == [1, 2]

    @pytest.mark.parametrize("changes", [{"max_num_seqs": 2}, {"num_state_slots": 2}])
    def test_no_more_sequences_than_seats(self, changes):
        driver = Driver(make_config(**changes))
        for seq_id in range(5):
            driver.add(seq_id, prompt_of(3), 3)
        assert driver.step().seq_ids.tolist() == [0, 1]
        assert (driver.scheduler.num_running, driver.scheduler.num_waiting) == (2, 3)
        driver.run()

    def test_a_large_prompt_at_the_front_is_not_overtaken(self):
        driver = Driver(make_config(num_blocks=8))
        driver.add(1, prompt_of(20), 4)
        driver.add(2, prompt_of(16), 4)
        driver.add(3, prompt_of(2), 4)
        assert driver.step().seq_ids.tolist() == [1]
        assert driver.step().kind == "decode"  # 3 would fit, but 2 came first
        driver.run()


class TestDecode:
    def test_each_sequence_feeds_its_last_token(self):
        driver = Driver(make_config())
        driver.add(1, prompt_of(5), 4)
        driver.add(2, prompt_of(3), 4)
        driver.step()
        plan = driver.step()
        assert (plan.kind, rows(plan), plan.positions.tolist()) == ("decode", [1, 1], [5, 3])
        assert plan.token_ids.tolist() == [driver.outputs[1][0], driver.outputs[2][0]]
        assert plan.output_indices.tolist() == [1, 1]

    def test_a_budget_below_the_batch_rotates_fairly(self):
        driver = Driver(make_config(max_num_batched_tokens=3))
        for seq_id in range(7):
            driver.add(seq_id, prompt_of(2), 31)
        while driver.scheduler.num_waiting or driver.step().kind == "prefill":
            if driver.scheduler.num_waiting:
                driver.step()
        served: Counter[int] = Counter()
        for _ in range(21):
            plan = driver.step()
            assert (plan.kind, plan.num_tokens) == ("decode", 3)
            served.update(plan.seq_ids.tolist())
        assert max(served.values()) - min(served.values()) <= 1

    def test_rotation_starves_no_one_while_short_texts_keep_coming(self):
        driver = Driver(make_config(max_num_batched_tokens=2, max_num_seqs=4, num_state_slots=4))
        driver.add(0, prompt_of(2), 6)
        for seq_id in range(1, 60):
            driver.add(seq_id, prompt_of(1), 2)
        for _ in range(60):
            driver.step()
            if 0 in driver.reasons:
                break
        assert driver.reasons[0] == "length"
        assert len(driver.reasons) < 40


class TestEnd:
    @pytest.mark.parametrize(
        ("length", "max_tokens", "num_new"), [(64, 5, 0), (63, 5, 1), (62, 5, 2), (10, 0, 0), (10, 1, 1), (1, 999, 63)]
    )
    def test_length_limits(self, length, max_tokens, num_new):
        driver = Driver(make_config())
        driver.add(1, prompt_of(length), max_tokens)
        plans = driver.run()
        assert (len(driver.outputs[1]), driver.reasons[1]) == (num_new, "length")
        assert max(int(plan.positions.max()) for plan in plans) == max(length - 1, length + num_new - 2)

    def test_a_text_that_outgrows_the_cache_ends_with_length(self):
        driver = Driver(make_config(num_blocks=4, block_size=8))
        driver.add(0, prompt_of(10), 5)
        with pytest.raises(ValueError, match="capacity of 32 tokens"):
            driver.add(1, prompt_of(40), 5)
        driver.add(2, prompt_of(30), 20)
        driver.run()
        assert (len(driver.outputs[0]), len(driver.outputs[2])) == (5, 3)
        assert driver.reasons == {0: "length", 2: "length"}

    def test_a_stop_id_ends_the_text_and_is_part_of_it(self):
        driver = Driver(make_config())
        free = driver.add(1, prompt_of(5), 20)
        driver.run()
        stop = driver.outputs[1][4]
        driver.add(2, free.prompt_token_ids.tolist(), 20, [stop])
        driver.run()
        assert driver.outputs[2] == driver.outputs[1][: driver.outputs[1].index(stop) + 1]
        assert driver.reasons[2] == "stop"

    @pytest.mark.parametrize("min_tokens", [0, 1, 2, 5, 19, 20, 25])
    def test_a_stop_id_counts_only_behind_min_tokens(self, min_tokens):
        driver = Driver(make_config())
        driver.add(1, prompt_of(5), 20, list(range(7)), min_tokens)
        driver.run()
        assert len(driver.outputs[1]) == min(min_tokens + 1, 20)
        assert driver.reasons[1] == ("stop" if min_tokens < 20 else "length")

    def test_a_stop_id_in_last_place_is_a_stop(self):
        driver = Driver(make_config())
        driver.add(1, prompt_of(5), 3, list(range(7)), 2)
        driver.run()
        assert (len(driver.outputs[1]), driver.reasons[1]) == (3, "stop")


class TestPreemption:
    def test_the_latest_admitted_gives_way_and_continues_at_its_old_index(self):
        config = make_config(num_blocks=4)
        driver = Driver(config)
        specs = [driver.add(seq_id, prompt_of(7, seq_id), 8) for seq_id in (1, 2)]
        plans = driver.run()
        assert [plan.preempted_seq_ids.tolist() for plan in plans].count([2]) == 1
        again = [plan for plan in plans if plan.kind == "prefill" and 2 in plan.seq_ids][-1]
        assert again.context_lens.tolist() == [0]
        assert again.output_indices.tolist() == [rows(again)[0] - 7] == [2]
        assert again.prompt_lens.tolist() == [7]
        for spec in specs:
            assert (driver.outputs[spec.seq_id], driver.reasons[spec.seq_id]) == expected_output(spec, config)
        assert driver.scheduler.stats().num_preemptions == 1

    def test_a_preempted_sequence_comes_before_the_waiting(self):
        driver = Driver(make_config(num_blocks=4))
        for seq_id in (1, 2, 3):
            driver.add(seq_id, prompt_of(7), 8)
        starts = [seq_id for plan in driver.run() if plan.kind == "prefill" for seq_id in plan.seq_ids.tolist()]
        assert starts == [1, 2, 2, 3] or starts == [1, 2, 2, 3, 3]

    def test_a_recompute_beyond_the_budget_is_chunked_even_when_prompts_are_not(self):
        config = make_config(num_blocks=6, max_num_batched_tokens=8, enable_chunked_prefill=False)
        driver = Driver(config)
        specs = [driver.add(seq_id, prompt_of(7, seq_id), 16) for seq_id in (1, 2)]
        driver.run()
        assert driver.scheduler.stats().num_preemptions > 0
        for spec in specs:
            assert (driver.outputs[spec.seq_id], driver.reasons[spec.seq_id]) == expected_output(spec, config)

    def test_preemption_does_not_thrash(self):
        driver = Driver(make_config(num_blocks=40, num_state_slots=16, max_num_seqs=16))
        for seq_id in range(32):
            driver.add(seq_id, prompt_of(8), 40)
        driver.run()
        stats = driver.scheduler.stats()
        assert stats.num_preemptions < 2 * 32
        assert stats.num_recomputed_tokens < stats.num_generated_tokens
