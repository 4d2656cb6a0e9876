// Random walks of a loop that plans each decode step while the one before it is in flight.
#include <doctest/doctest.h>

#include <optional>
#include <random>
#include <vector>

#include "core/resolve_plan.hpp"
#include "core/scheduler.hpp"
#include "walk.hpp"

using namespace deepinfer;
using deepinfer::testing::FakeWorker;
using deepinfer::testing::random_config;
using deepinfer::testing::Walk;

namespace {

class OverlappedWalk : public Walk {
  public:
    using Walk::Walk;

    void step(bool with_drops) override {
        const auto plan = scheduler_.schedule();
        scheduler_.check();
        REQUIRE((pending_ || (plan->kind == StepKind::kEmpty) == specs_.empty()));
        count(*plan);
        maybe_drop(with_drops);
        std::optional<Step> launched;
        if (plan->num_seqs() > 0) launched = launch(*plan);
        maybe_drop(with_drops);
        drain();
        maybe_drop(with_drops);
        if (!launched) return;
        require_equal(*scheduler_.settled(plan->step_id), launched->plan);
        forget_gone(*launched);
        pending_ = std::move(launched);
        if (plan->kind == StepKind::kPrefill) drain();
    }

    // The newest step fails, before or behind its forward pass. The one before it is booked, or given up as well, which
    // it may be while nothing has been computed on top of it.
    void fail_step() override {
        const auto plan = scheduler_.schedule();
        scheduler_.check();
        const bool computed = plan->num_seqs() > 0 && pick(0, 1) == 1;
        if (computed) launch(*plan);
        if (pending_ && pick(0, 1) == 1) drain();
        if (plan->num_seqs() > 0) scheduler_.discard(plan->step_id);
        scheduler_.check();
        if (computed) drop_cut_prompts(*plan);
        if (!pending_) return;
        if (computed || pick(0, 1) == 1) return drain();
        scheduler_.discard(pending_->plan.step_id);
        pending_.reset();
        scheduler_.check();
    }

    void drain() override {
        if (!pending_) return;
        const Step done = *std::move(pending_);
        pending_.reset();
        take(scheduler_.update(done.plan.step_id, done.result.tokens, done.result.cu_tokens,
                               done.result.drafts(done.plan)));
        scheduler_.check();
    }

    int64_t num_linked() const { return num_linked_; }
    int64_t num_ghosts() const { return num_ghosts_; }
    int64_t num_fresh() const { return num_fresh_; }
    int64_t num_drains() const { return num_drains_; }
    int64_t num_prefills_over() const { return num_prefills_over_; }

  private:
    struct Step {
        StepPlan plan;  // exact
        FakeWorker::Result result;
    };

    void maybe_drop(bool with_drops) {
        if (with_drops && pick(0, 29) == 0) drop();
    }

    void count(const StepPlan& plan) {
        num_linked_ += plan.is_linked();
        num_drains_ += pending_ && plan.kind == StepKind::kEmpty && !specs_.empty();
        num_prefills_over_ += pending_ && plan.kind == StepKind::kPrefill;
        for (const int32_t j : plan.remap) num_fresh_ += plan.is_linked() && j < 0;
    }

    // What a device does: it corrects the plan by what it computed last, and computes.
    Step launch(const StepPlan& plan) {
        Step step{plan, {}};
        if (plan.is_linked()) {
            const FakeWorker::Result& last = pending_->result;
            step.plan = resolve_plan(plan, pending_->plan, {last.tokens, last.cu_tokens, last.drafts(pending_->plan)});
            REQUIRE(step.plan.num_tokens() <= plan.num_tokens());
        }
        for (size_t row = 0; row < step.plan.positions.size() && plan.kind == StepKind::kDecode; ++row) {
            REQUIRE(step.plan.positions[row] < config_.max_model_len);
        }
        step.result = worker_.execute(step.plan);
        return step;
    }

    static void require_equal(const StepPlan& settled, const StepPlan& device) {
        REQUIRE(settled.step_id == device.step_id);
        REQUIRE_FALSE(settled.is_linked());
        REQUIRE(settled.seq_ids == device.seq_ids);
        REQUIRE(settled.context_lens == device.context_lens);
        REQUIRE(settled.token_ids == device.token_ids);
        REQUIRE(settled.positions == device.positions);
        REQUIRE(settled.cu_seqlens_q == device.cu_seqlens_q);
        REQUIRE(settled.num_drafts == device.num_drafts);
        REQUIRE(settled.lookback_ids == device.lookback_ids);
        REQUIRE(settled.output_indices == device.output_indices);
    }

    // The sampler knows unfinished sequences only.
    void forget_gone(Step& step) {
        if (step.plan.kind != StepKind::kDecode) return;
        FakeWorker::Result known;
        const auto num_drafts = static_cast<size_t>(config_.num_drafts);
        for (size_t i = 0; i < step.plan.seq_ids.size(); ++i) {
            const auto begin = step.result.tokens.begin();
            const bool is_gone = !specs_.contains(step.plan.seq_ids[i]);
            num_ghosts_ += is_gone;
            if (!is_gone) {
                known.tokens.insert(known.tokens.end(), begin + step.result.cu_tokens[i],
                                    begin + step.result.cu_tokens[i + 1]);
            }
            known.cu_tokens.push_back(static_cast<int32_t>(known.tokens.size()));
            for (size_t k = i * num_drafts; k < (i + 1) * num_drafts; ++k) {
                known.draft_ids.push_back(is_gone ? -1 : step.result.draft_ids[k]);
                known.confidences.push_back(step.result.confidences[k]);
            }
        }
        step.result = std::move(known);
    }

    std::optional<Step> pending_;  // a decode step, sampled and not booked
    int64_t num_linked_ = 0;
    int64_t num_ghosts_ = 0;
    int64_t num_fresh_ = 0;
    int64_t num_drains_ = 0;
    int64_t num_prefills_over_ = 0;
};

struct Totals {
    int64_t num_finished = 0;
    int64_t num_linked = 0;
    int64_t num_ghosts = 0;
    int64_t num_fresh = 0;
    int64_t num_drains = 0;
    int64_t num_prefills_over = 0;
    int64_t num_preemptions = 0;
    int64_t num_accepted = 0;
    int64_t num_verified = 0;

    void add(const OverlappedWalk& walk) {
        num_finished += walk.num_finished();
        num_linked += walk.num_linked();
        num_ghosts += walk.num_ghosts();
        num_fresh += walk.num_fresh();
        num_drains += walk.num_drains();
        num_prefills_over += walk.num_prefills_over();
        const SchedulerStats stats = walk.scheduler().stats();
        num_preemptions += stats.num_preemptions;
        num_accepted += stats.num_drafts_accepted;
        num_verified += stats.num_drafts_verified;
    }
};

}  // namespace

TEST_CASE("overlap walk: random loads on random configurations give the texts made without a scheduler") {
    std::mt19937 random(4321);
    Totals totals;
    for (uint32_t seed = 0; seed < 200; ++seed) {
        const SchedulerConfig config = random_config(random);
        CAPTURE(seed);
        OverlappedWalk walk(config, seed);
        for (int turn = 0; turn < 150; ++turn) walk.act();
        walk.run_to_the_end();
        totals.add(walk);
    }
    CHECK(totals.num_finished > 1000);
    CHECK(totals.num_linked > 1000);
    CHECK(totals.num_ghosts > 300);
    CHECK(totals.num_fresh > 10);
    CHECK(totals.num_drains > 300);
    CHECK(totals.num_prefills_over > 300);
    CHECK(totals.num_preemptions > 100);
    CHECK(totals.num_accepted > 500);
    CHECK(totals.num_verified > totals.num_accepted);
}
