#include "core/resolve_plan.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/message.hpp"
#include "core/verify_budget.hpp"

namespace deepinfer {

namespace {

void require_linked(const StepPlan& plan, const StepPlan& previous) {
    if (!plan.is_linked()) throw std::invalid_argument(message("step ", plan.step_id, " has an exact plan already"));
    if (plan.previous_step_id != previous.step_id || previous.is_linked() || previous.kind != StepKind::kDecode) {
        throw std::invalid_argument(message("step ", plan.step_id, " goes on from decode step ", plan.previous_step_id,
                                            "; an exact plan of it is needed, not ",
                                            previous.is_linked() ? "a linked one" : "one", " of step ",
                                            previous.step_id));
    }
}

void require_shape(const StepOutcome& outcome, const StepPlan& previous, size_t num_drafts) {
    const auto num_seqs = static_cast<size_t>(previous.num_seqs());
    const auto& cu_tokens = outcome.cu_tokens;
    if (cu_tokens.size() != num_seqs + 1 || cu_tokens.front() != 0 ||
        cu_tokens.back() != static_cast<int64_t>(outcome.tokens.size())) {
        throw std::invalid_argument(message("cu_tokens has ", cu_tokens.size(), " entries for ", outcome.tokens.size(),
                                            " tokens; step ", previous.step_id, " has ", num_seqs, " sequences"));
    }
    for (size_t j = 0; j < num_seqs; ++j) {
        const int32_t num_given = cu_tokens[j + 1] - cu_tokens[j];
        if (num_given >= 0 && num_given <= 1 + previous.num_drafts[j]) continue;
        throw std::invalid_argument(message("sequence ", previous.seq_ids[j], " got ", num_given, " tokens of ",
                                            1 + previous.num_drafts[j], " rows"));
    }
    const auto& [ids, confidences] = outcome.drafts;
    if ((ids.empty() || ids.size() == num_seqs * num_drafts) &&
        (confidences.empty() || confidences.size() == ids.size())) {
        return;
    }
    throw std::invalid_argument(message("there are ", ids.size(), " draft ids and ", confidences.size(),
                                        " confidences; ", num_seqs, " sequences with ", num_drafts,
                                        " drafts each need ", num_seqs * num_drafts));
}

class Resolver {
  public:
    Resolver(const StepPlan& plan, const StepPlan& previous, const StepOutcome& outcome)
        : plan_(plan), previous_(previous), outcome_(outcome), num_drafts_(plan.rate_factors.size()), exact_(plan) {}

    StepPlan run() {
        exact_.previous_step_id = StepPlan::kExact;
        for (size_t i = 0; i < plan_.remap.size(); ++i) {
            if (plan_.remap[i] >= 0) continue_text(i);
        }
        split();
        fill_rows();
        std::fill(exact_.remap.begin(), exact_.remap.end(), -1);
        return std::move(exact_);
    }

  private:
    size_t source(size_t i) const { return static_cast<size_t>(plan_.remap[i]); }
    // New tokens of matched row i.
    std::span<const int32_t> tokens_of(size_t i) const {
        const auto begin = static_cast<size_t>(outcome_.cu_tokens[source(i)]);
        return outcome_.tokens.subspan(begin, static_cast<size_t>(outcome_.cu_tokens[source(i) + 1]) - begin);
    }
    int32_t previous_token(size_t i) const {
        return previous_.token_ids[static_cast<size_t>(previous_.cu_seqlens_q[source(i)])];
    }
    std::span<const int32_t> drafts_of(size_t i) const {
        return outcome_.drafts.token_ids.subspan(source(i) * num_drafts_, num_drafts_);
    }

    // Context, look-back and usable drafts (num_drafts, for the time being) of a matched row.
    void continue_text(size_t i) {
        const auto tokens = tokens_of(i);
        const auto num_new = static_cast<int32_t>(tokens.size());
        exact_.context_lens[i] = previous_.context_lens[source(i)] + num_new;
        exact_.output_indices[i] = previous_.output_indices[source(i)] + num_new;
        exact_.num_drafts[i] = num_new == 0 ? 0 : num_usable(i);
        const auto width = static_cast<size_t>(plan_.num_lookback);
        for (size_t back = 0; back < width; ++back) {
            int32_t& token = exact_.lookback_ids[i * width + back];
            if (back + 1 < tokens.size()) {
                token = tokens[tokens.size() - 2 - back];
            } else if (back + 1 == tokens.size()) {
                token = previous_token(i);
            } else {
                token = previous_.lookback_ids[source(i) * width + back - tokens.size()];
            }
        }
    }

    int32_t num_usable(size_t i) const {
        if (outcome_.drafts.token_ids.empty()) return 0;
        const auto drafts = drafts_of(i);
        const auto end = std::find_if(drafts.begin(), drafts.end(), [](int32_t id) { return id < 0; });
        const int32_t num_left = std::max(plan_.max_lens[i] - exact_.context_lens[i] - 2, 0);
        return std::min({static_cast<int32_t>(end - drafts.begin()), plan_.draft_caps[i], num_left});
    }

    // Cuts the usable drafts to what the rows allow.
    void split() {
        int64_t budget = plan_.num_draft_rows;
        int64_t num_wanted = 0;
        for (size_t i = 0; i < plan_.remap.size(); ++i) {
            if (plan_.remap[i] < 0) {
                budget -= plan_.num_drafts[i];
            } else {
                num_wanted += exact_.num_drafts[i];
            }
        }
        if (num_wanted <= budget) return;
        std::vector<CumulativeRates> rates(plan_.remap.size());
        for (size_t i = 0; i < rates.size(); ++i) {
            if (plan_.remap[i] >= 0) rates[i] = rates_of(i);
        }
        const auto rows = split_rows(rates, plan_.num_seqs() + budget);
        for (size_t i = 0; i < rows.size(); ++i) {
            if (plan_.remap[i] >= 0) exact_.num_drafts[i] = static_cast<int32_t>(rows[i] - 1);
        }
    }

    CumulativeRates rates_of(size_t i) const {
        CumulativeRates rates;
        float product = 1.0F;
        float previous = 1.0F;
        for (size_t k = 0; k < static_cast<size_t>(exact_.num_drafts[i]); ++k) {
            const auto& confidences = outcome_.drafts.confidences;
            if (!confidences.empty()) product *= bounded_confidence(confidences[source(i) * num_drafts_ + k]);
            previous = std::min(previous, calibrated_rate(product, plan_.rate_factors[k]));
            rates.push_back(previous);
        }
        return rates;
    }

    // Tokens and positions of all rows, one sequence behind the other.
    void fill_rows() {
        exact_.token_ids.clear();
        exact_.positions.clear();
        for (size_t i = 0; i < plan_.remap.size(); ++i) {
            const auto num_rows = static_cast<size_t>(1 + exact_.num_drafts[i]);
            if (plan_.remap[i] < 0) {
                const auto first = plan_.token_ids.begin() + plan_.cu_seqlens_q[i];
                exact_.token_ids.insert(exact_.token_ids.end(), first, first + static_cast<int64_t>(num_rows));
            } else {
                const auto tokens = tokens_of(i);
                exact_.token_ids.push_back(tokens.empty() ? previous_token(i) : tokens.back());
                if (num_rows > 1) {
                    const auto drafts = drafts_of(i).first(num_rows - 1);
                    exact_.token_ids.insert(exact_.token_ids.end(), drafts.begin(), drafts.end());
                }
            }
            exact_.positions.resize(exact_.token_ids.size());
            std::iota(exact_.positions.end() - static_cast<int64_t>(num_rows), exact_.positions.end(),
                      exact_.context_lens[i]);
            exact_.cu_seqlens_q[i + 1] = static_cast<int32_t>(exact_.token_ids.size());
        }
        exact_.num_draft_rows = static_cast<int32_t>(exact_.num_tokens() - exact_.num_seqs());
    }

    const StepPlan& plan_;
    const StepPlan& previous_;
    const StepOutcome& outcome_;
    size_t num_drafts_;
    StepPlan exact_;
};

}  // namespace

StepPlan resolve_plan(const StepPlan& plan, const StepPlan& previous, const StepOutcome& outcome) {
    require_linked(plan, previous);
    require_shape(outcome, previous, plan.rate_factors.size());
    return Resolver(plan, previous, outcome).run();
}

}  // namespace deepinfer
