#include "draft_simulator.hpp"

#include <algorithm>

namespace deepinfer::testing {

namespace {

constexpr int32_t kDraft = 3;  // every draft; a token that equals it is an accepted one

SchedulerConfig config_of(const Workload& workload, DraftMode mode) {
    const int64_t num_seqs = workload.num_seqs;
    return {.num_blocks = num_seqs * 256,
            .block_size = 128,
            .num_state_slots = num_seqs,
            .max_num_seqs = num_seqs,
            .max_num_batched_tokens = num_seqs * (1 + workload.num_drafts),
            .max_prefill_chunk = 16,
            .max_model_len = 32768,
            .num_drafts = mode == DraftMode::kOff ? 0 : workload.num_drafts,
            .varlen = mode == DraftMode::kScheduled};
}

}  // namespace

DraftSimulator::DraftSimulator(const Workload& workload, DraftMode mode)
    : workload_(workload), mode_(mode), scheduler_(config_of(workload, mode)) {
    const bool is_guess = !workload.step_guess.empty();
    scheduler_.set_cost_curves(is_guess ? workload.step_guess : workload.step_curve,
                               is_guess ? workload.draft_guess : workload.draft_curve, is_guess);
    std::normal_distribution<float> normal(0.0F, static_cast<float>(workload.spread));
    for (int64_t seq_id = 0; seq_id < workload.num_seqs; ++seq_id) {
        scheduler_.add({seq_id, {1}, 1 << 20, {}});
        skills_.push_back(workload.num_seqs == 1 ? 0.0F : normal(random_));
        confidences_.emplace_back();
    }
}

void DraftSimulator::run(int64_t num_steps) {
    tokens_ = ms_ = 0.0;
    for (int64_t i = 0; i < num_steps; ++i) step();
}

void DraftSimulator::step() {
    const StepPlan plan = *scheduler_.schedule();
    const StepMs ms = true_ms(plan);
    if (plan.kind == StepKind::kDecode) ms_ += ms.forward + ms.sample + ms.draft;
    if (workload_.observes) scheduler_.observe_step_ms(plan.step_id, ms);
    tokens_given_.clear();
    cu_tokens_.assign(1, 0);
    draft_ids_.clear();
    new_confidences_.clear();
    for (int64_t i = 0; i < plan.num_seqs(); ++i) {
        sample(plan, i);
        if (plan.make_drafts) draft(plan.seq_ids[static_cast<size_t>(i)]);
    }
    scheduler_.update(plan.step_id, tokens_given_, cu_tokens_, {draft_ids_, new_confidences_});
}

StepMs DraftSimulator::true_ms(const StepPlan& plan) const {
    const auto num_rows = static_cast<double>(plan.num_tokens());
    const auto num_seqs = static_cast<double>(plan.num_seqs());
    StepMs ms;
    ms.forward = workload_.step_curve.ms(plan.num_tokens()) + workload_.ms_per_row * num_rows;
    ms.sample = workload_.sample_ms * num_seqs;
    if (plan.make_drafts) ms.draft = workload_.draft_error * workload_.draft_curve.ms(plan.num_seqs());
    return ms;
}

void DraftSimulator::sample(const StepPlan& plan, int64_t index) {
    const auto i = static_cast<size_t>(index);
    const std::vector<float>& confidences = confidences_[static_cast<size_t>(plan.seq_ids[i])];
    std::uniform_real_distribution<float> unit(0.0F, 1.0F);
    int32_t num_tokens = 1;
    double expected = 1.0;
    double rate = 1.0;
    for (int32_t k = 0; k < plan.num_drafts[i]; ++k) {
        const double chance = workload_.honesty * static_cast<double>(confidences[static_cast<size_t>(k)]);
        expected += rate *= chance;
        if (num_tokens == k + 1 && static_cast<double>(unit(random_)) < chance) ++num_tokens;
    }
    if (plan.kind == StepKind::kDecode) tokens_ += expected;
    tokens_given_.insert(tokens_given_.end(), static_cast<size_t>(num_tokens - 1), kDraft);
    tokens_given_.push_back(kDraft + 1);
    cu_tokens_.push_back(static_cast<int32_t>(tokens_given_.size()));
}

void DraftSimulator::draft(int64_t seq_id) {
    std::normal_distribution<float> noise(0.0F, static_cast<float>(workload_.spread));
    std::vector<float>& confidences = confidences_[static_cast<size_t>(seq_id)];
    confidences.clear();
    const float mean = static_cast<float>(workload_.confidence) + skills_[static_cast<size_t>(seq_id)];
    for (int64_t k = 0; k < workload_.num_drafts; ++k) {
        confidences.push_back(std::clamp(mean + noise(random_), 0.0F, 1.0F));
        draft_ids_.push_back(kDraft);
    }
    new_confidences_.insert(new_confidences_.end(), confidences.begin(), confidences.end());
}

}  // namespace deepinfer::testing
