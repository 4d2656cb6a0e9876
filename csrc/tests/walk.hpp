// A random load on a scheduler: what it gives is compared with texts that were made without one.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "core/scheduler.hpp"
#include "fake_worker.hpp"

namespace deepinfer::testing {

class Walk {
  public:
    Walk(const SchedulerConfig& config, uint32_t seed)
        : config_(config), scheduler_(config), worker_(config), random_(seed) {}

    virtual ~Walk() = default;

    int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }

    void add() {
        SequenceSpec spec{next_id_++, {}, pick(0, 30), {}, pick(0, 1) * pick(0, 9)};
        const int64_t longest = std::min<int64_t>({config_.max_model_len, config_.capacity_tokens(), 40});
        const int64_t limit =
            config_.enable_chunked_prefill ? longest : std::min<int64_t>(longest, config_.max_num_batched_tokens);
        for (int64_t i = pick(1, limit); i > 0; --i) {
            spec.prompt_token_ids.push_back(static_cast<int32_t>(pick(0, kVocabSize - 1)));
        }
        if (pick(0, 1) == 1) spec.stop_token_ids.push_back(static_cast<int32_t>(pick(0, kVocabSize - 1)));
        const int64_t num_forks = pick(0, 1) * pick(0, 4);
        for (int64_t choice = 1; choice <= num_forks; ++choice) {
            spec.fork_seq_ids.push_back(spec.seq_id + choice * kForkStride);
        }
        scheduler_.add(spec);
        for (const int64_t id : spec.fork_seq_ids) specs_[id] = spec;
        specs_[spec.seq_id] = std::move(spec);
        scheduler_.check();
    }

    // Ends a random sequence from outside.
    void drop() {
        if (specs_.empty()) return;
        const auto chosen = std::next(specs_.begin(), pick(0, static_cast<int64_t>(specs_.size()) - 1));
        const int64_t id = chosen->first;
        const auto num_generated = static_cast<int64_t>(outputs_[id].size());
        REQUIRE((pick(0, 1) == 0 ? scheduler_.abort(id) : scheduler_.finish(id, pick(0, num_generated))));
        REQUIRE_FALSE(scheduler_.abort(id));
        forget_with_forks(id);
        scheduler_.check();
    }

    // A step that fails, before or behind its forward pass. What a worker could not compute again is ended, as the
    // engine does it.
    virtual void fail_step() {
        const StepPlan plan = *scheduler_.schedule();
        const bool computed = pick(0, 1) == 1;
        if (computed) worker_.execute(plan);
        scheduler_.discard(plan.step_id);
        if (computed) drop_cut_prompts(plan);
        scheduler_.check();
    }

    virtual void step(bool with_drops) {
        const StepPlan plan = *scheduler_.schedule();
        scheduler_.check();
        REQUIRE((plan.kind == StepKind::kEmpty) == specs_.empty());
        const FakeWorker::Result result = worker_.execute(plan);
        if (with_drops && pick(0, 19) == 0) drop();
        take(scheduler_.update(plan.step_id, result.tokens, result.cu_tokens, result.drafts(plan)));
        scheduler_.check();
    }

    // Books what is in flight.
    virtual void drain() {}

    // Any of the above, mostly steps.
    void act() {
        const int64_t action = pick(0, 9);
        if (action < 2) {
            add();
        } else if (action == 2 && pick(0, 3) == 0) {
            drop();
        } else if (action == 3 && pick(0, 3) == 0) {
            fail_step();
        } else if (action == 4 && pick(0, 9) == 0) {
            change_costs();
        } else {
            step(true);
        }
    }

    void run_to_the_end() {
        for (int num_steps = 0; scheduler_.has_unfinished(); ++num_steps) {
            REQUIRE(num_steps < 100000);
            step(false);
        }
        drain();
        REQUIRE(specs_.empty());
        REQUIRE(scheduler_.num_free_blocks() == config_.num_blocks);
        REQUIRE(scheduler_.num_free_state_slots() == config_.num_state_slots);
    }

    // From memory-bound to compute-bound; now and then none.
    void change_costs() {
        if (pick(0, 4) == 0) return scheduler_.set_cost_curves({}, {});
        const double per_row = static_cast<double>(pick(0, 100)) / 50.0;
        std::vector<CostPoint> points;
        for (int64_t rows = pick(1, 8); rows < 64; rows += pick(1, 8)) {
            points.push_back({rows, 1.0 + per_row * static_cast<double>(rows)});
        }
        scheduler_.set_cost_curves(CostCurve(points), CostCurve({{8, 0.1 + per_row}}));
    }

    const Scheduler& scheduler() const { return scheduler_; }
    int64_t num_finished() const { return num_finished_; }

  protected:
    void take(const StepUpdate& update) {
        for (size_t i = 0; i < update.seq_ids.size(); ++i) {
            const int64_t id = update.seq_ids[i];
            REQUIRE(specs_.contains(id));
            auto& output = outputs_[id];
            begun_.insert(id);
            output.insert(output.end(), update.tokens.begin() + update.cu_tokens[i],
                          update.tokens.begin() + update.cu_tokens[i + 1]);
            const FinishReason reason = update.finish_reasons[i];
            if (reason == FinishReason::kRunning) continue;
            REQUIRE(Outcome{output, reason} == expected_outcome(specs_[id], config_, choice_of(id)));
            REQUIRE((update.stop_token_ids[i] == (reason == FinishReason::kStop ? output.back() : -1)));
            forget(id);
            ++num_finished_;
        }
    }

    // Ends the sequences whose rings a prefill step in vain may have overwritten.
    void drop_cut_prompts(const StepPlan& plan) {
        for (int64_t i = 0; plan.kind == StepKind::kPrefill && i < plan.num_seqs(); ++i) {
            if (plan.context_lens[i] == 0 || !specs_.contains(plan.seq_ids[i])) continue;
            REQUIRE(scheduler_.abort(plan.seq_ids[i]));
            forget_with_forks(plan.seq_ids[i]);
        }
    }

    // Forks that have not begun go with their parent.
    void forget_with_forks(int64_t id) {
        const SequenceSpec spec = specs_.at(id);
        forget(id);
        for (const int64_t fork_id : spec.seq_id == id ? spec.fork_seq_ids : std::vector<int64_t>{}) {
            if (!begun_.contains(fork_id)) forget(fork_id);
        }
    }

    void forget(int64_t id) {
        specs_.erase(id);
        outputs_.erase(id);
    }

    SchedulerConfig config_;
    Scheduler scheduler_;
    FakeWorker worker_;
    std::mt19937 random_;
    std::map<int64_t, SequenceSpec> specs_;
    std::map<int64_t, std::vector<int32_t>> outputs_;
    std::set<int64_t> begun_;  // sequences that the scheduler reported
    int64_t next_id_ = 0;
    int64_t num_finished_ = 0;
};

// Sizes from very small to small.
inline SchedulerConfig random_config(std::mt19937& random) {
    const auto pick = [&](int64_t low, int64_t high) {
        return low + static_cast<int64_t>(random() % (high - low + 1));
    };
    const int64_t num_drafts = pick(0, 1) * pick(1, 6);
    return {.num_blocks = pick(1, 24),
            .block_size = pick(1, 8),
            .num_state_slots = pick(1, 8),
            .max_num_seqs = pick(1, 8),
            .max_num_batched_tokens = num_drafts + pick(1, 24),
            .max_prefill_chunk = pick(1, 24),
            .max_model_len = pick(1, 50),
            .num_lookback = pick(0, 3),
            .enable_chunked_prefill = pick(0, 3) > 0,
            .num_drafts = num_drafts,
            .varlen = pick(0, 2) > 0,
            .keep_tokens = pick(0, 9)};
}

}  // namespace deepinfer::testing
