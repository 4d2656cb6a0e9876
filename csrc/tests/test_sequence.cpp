// Tests of Sequence, WaitingQueue and StepPlan::append.
#include <doctest/doctest.h>

#include "core/sequence.hpp"
#include "core/step_plan.hpp"
#include "core/waiting_queue.hpp"

using namespace deepinfer;

namespace {

Sequence make_sequence(int64_t id, std::vector<int32_t> prompt, int64_t max_len, std::vector<int32_t> stops = {}) {
    return Sequence({id, std::move(prompt), max_len, std::move(stops), 0}, max_len);
}

}  // namespace

TEST_CASE("sequence: two steps in flight, booked oldest first, given up newest first") {
    Sequence seq = make_sequence(1, {10, 11, 12}, 9);
    seq.admit(0);
    FinishReason reason;
    seq.commit_tokens(std::vector<int32_t>{20}, reason);
    seq.begin_step(4, 2);
    seq.begin_step(5, 0);
    CHECK(seq.num_steps_in_flight() == 2);
    CHECK(seq.step_in_flight(0) == 4);
    CHECK(seq.step_in_flight(1) == 5);
    CHECK(seq.place_in(4) == 2);
    CHECK(seq.place_in(5) == 0);
    CHECK(seq.place_in(6) == Sequence::kNoStep);
    CHECK(seq.num_usable_drafts(9) == 2);  // two tokens come at least, and one with the drafts
    seq.cancel_step();
    CHECK_FALSE(seq.is_in(5));
    seq.begin_step(6, 1);
    seq.commit_tokens(std::vector<int32_t>{21}, reason);
    CHECK_FALSE(seq.is_in(4));
    CHECK(seq.place_in(6) == 1);
    CHECK(seq.num_steps_in_flight() == 1);
}

TEST_CASE("sequence: a step in flight may end it for certain") {
    Sequence seq = make_sequence(1, {10, 11, 12}, 5);
    seq.admit(0);
    FinishReason reason;
    seq.commit_tokens(std::vector<int32_t>{20}, reason);
    CHECK(seq.can_go_on());
    seq.begin_step(4, 0);
    CHECK_FALSE(seq.can_go_on());
}

TEST_CASE("sequence: chunks, first token, decode") {
    Sequence seq = make_sequence(1, {10, 11, 12}, 5);
    seq.admit(0);
    CHECK_FALSE(seq.samples_after(2));
    seq.begin_step(4, 2);
    CHECK(seq.is_in(4));
    CHECK(seq.commit_rows(2) == FinishReason::kRunning);
    CHECK_FALSE(seq.is_in(4));
    CHECK(seq.num_uncomputed() == 1);
    CHECK(seq.samples_after(1));
    FinishReason reason;
    const std::vector<int32_t> first{20};
    CHECK(seq.commit_tokens(first, reason) == 1);
    CHECK(reason == FinishReason::kRunning);
    CHECK(seq.status() == SequenceStatus::kDecoding);
    CHECK(seq.num_computed() == 3);
    CHECK(seq.num_generated() == 1);
    const std::vector<int32_t> second{21};
    seq.commit_tokens(second, reason);
    CHECK(reason == FinishReason::kLength);
    CHECK(seq.status() == SequenceStatus::kFinished);
}

TEST_CASE("sequence: of several tokens those behind the end are dropped") {
    Sequence seq = make_sequence(1, {10}, 50, {7});
    seq.admit(0);
    FinishReason reason;
    const std::vector<int32_t> tokens{5, 6, 7, 8};
    CHECK(seq.commit_tokens(tokens, reason) == 3);
    CHECK(reason == FinishReason::kStop);
    CHECK(seq.len() == 4);
}

TEST_CASE("sequence: preemption keeps the tokens and counts what is computed again") {
    Sequence seq = make_sequence(1, {10, 11, 12}, 9);
    seq.admit(0);
    FinishReason reason;
    const std::vector<int32_t> tokens{20};
    seq.commit_tokens(tokens, reason);
    CHECK_FALSE(seq.was_preempted());
    seq.preempt();
    CHECK(seq.was_preempted());
    CHECK(seq.len() == 4);
    CHECK(seq.num_computed() == 0);
    CHECK(seq.num_recomputed(4) == 3);
    CHECK(seq.num_recomputed(2) == 2);
}

TEST_CASE("sequence: a text that is as long as it may be gets no token") {
    Sequence seq = make_sequence(1, {10, 11}, 2);
    seq.admit(0);
    CHECK_FALSE(seq.samples_after(2));
    CHECK(seq.commit_rows(2) == FinishReason::kLength);
}

TEST_CASE("waiting queue: first in first out, the front for returners, removal anywhere") {
    std::vector<Sequence> seqs;
    for (int id = 0; id < 5; ++id) seqs.push_back(make_sequence(id, {1}, 2));
    WaitingQueue queue;
    for (const int id : {0, 1, 2}) queue.push_back(seqs[id]);
    queue.push_front(seqs[3]);
    queue.push_front(seqs[4]);
    CHECK(queue.remove(1));
    CHECK_FALSE(queue.remove(1));
    CHECK_FALSE(queue.contains(1));
    std::vector<int64_t> order;
    for (; !queue.empty(); queue.pop_front()) order.push_back(queue.front().id());
    CHECK(order == std::vector<int64_t>{4, 3, 0, 2});
}

TEST_CASE("step plan: rows, positions, look-back and tables of two sequences") {
    Sequence first = make_sequence(7, {10, 11, 12, 13, 14}, 9);
    first.cache() = {{3, 1}, 2};
    first.admit(0);
    first.commit_rows(2);
    Sequence second = make_sequence(8, {20, 21}, 9);
    second.cache() = {{0}, 0};
    StepPlan plan;
    plan.num_lookback = 3;
    plan.append(first, 2);
    plan.append(second, 2);
    CHECK(plan.seq_ids == std::vector<int64_t>{7, 8});
    CHECK(plan.cu_seqlens_q == std::vector<int32_t>{0, 2, 4});
    CHECK(plan.context_lens == std::vector<int32_t>{2, 0});
    CHECK(plan.prompt_lens == std::vector<int32_t>{5, 2});
    CHECK(plan.state_slots == std::vector<int32_t>{2, 0});
    CHECK(plan.block_ids == std::vector<int32_t>{3, 1, 0});
    CHECK(plan.cu_blocks == std::vector<int32_t>{0, 2, 3});
    CHECK(plan.token_ids == std::vector<int32_t>{12, 13, 20, 21});
    CHECK(plan.positions == std::vector<int32_t>{2, 3, 0, 1});
    CHECK(plan.lookback_ids == std::vector<int32_t>{11, 10, -1, -1, -1, -1});
    CHECK(plan.samples == std::vector<uint8_t>{0, 1});
    CHECK(plan.consumer_starts == std::vector<int32_t>{0, 0});
}

TEST_CASE("sequence: the consumers' first row follows from the prompt alone") {
    const auto start_of = [](std::vector<int32_t> prompt, int64_t keep_tokens) {
        return Sequence({1, std::move(prompt), 9, {}, 0}, 9, keep_tokens).consumer_start();
    };
    CHECK(start_of({1, 2, 3, 4, 5}, 2) == 3);
    CHECK(start_of({1, 2, 3, 4, 5}, 5) == 0);
    CHECK(start_of({1, 2, 3, 4, 5}, 6) == 0);
    CHECK(start_of({1, 2, 3, 4, 5}, 0) == 0);
    Sequence seq({1, {1, 2, 3, 4, 5}, 9, {}, 0}, 9, 2);
    seq.admit(0);
    FinishReason reason;
    seq.commit_tokens(std::vector<int32_t>{7}, reason);
    seq.preempt();
    CHECK(seq.len() == 6);
    CHECK(seq.consumer_start() == 3);
    CHECK(Sequence(seq, 2).consumer_start() == 3);
}
