#include "fake_worker.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "core/message.hpp"

namespace deepinfer::testing {

namespace {

template <typename... Parts>
void require(bool holds, const Parts&... parts) {
    if (!holds) throw std::runtime_error(message("fake worker: ", parts...));
}

}  // namespace

int32_t next_token(const std::vector<int32_t>& text, int64_t choice) {
    uint32_t hash = 2166136261u + static_cast<uint32_t>(choice);
    for (const int32_t token : text) hash = (hash ^ static_cast<uint32_t>(token + 1)) * 16777619u;
    return static_cast<int32_t>((hash >> 8) % kVocabSize);
}

Outcome expected_outcome(const SequenceSpec& spec, const SchedulerConfig& config, int64_t choice) {
    std::vector<int32_t> text = spec.prompt_token_ids;
    Outcome outcome;
    while (true) {
        const auto len = static_cast<int64_t>(text.size());
        const auto num_generated = static_cast<int64_t>(outcome.tokens.size());
        const bool fits = len <= config.num_blocks * config.block_size;
        if (num_generated >= spec.max_tokens || len >= config.max_model_len || !fits) {
            outcome.reason = FinishReason::kLength;
            return outcome;
        }
        const int32_t token = next_token(text, choice);
        text.push_back(token);
        outcome.tokens.push_back(token);
        const auto& stops = spec.stop_token_ids;
        if (num_generated + 1 > spec.min_tokens && std::count(stops.begin(), stops.end(), token) > 0) {
            outcome.reason = FinishReason::kStop;
            return outcome;
        }
    }
}

FakeWorker::FakeWorker(const SchedulerConfig& config)
    : config_(config),
      entries_(static_cast<size_t>(config.num_blocks * config.block_size)),
      states_(static_cast<size_t>(config.num_state_slots)) {}

FakeWorker::Result FakeWorker::execute(const StepPlan& plan) {
    require(plan.num_tokens() <= config_.max_num_batched_tokens, plan.num_tokens(), " tokens in one step");
    require(plan.num_seqs() <= config_.max_num_seqs, plan.num_seqs(), " sequences in one step");
    const std::set<int64_t> ids(plan.seq_ids.begin(), plan.seq_ids.end());
    require(static_cast<int64_t>(ids.size()) == plan.num_seqs(), "a sequence is in the step twice");
    copy(plan);
    for (int64_t i = 0; i < plan.num_seqs(); ++i) write_rows(plan, i);
    Result result;
    for (int64_t i = 0; i < plan.num_seqs(); ++i) {
        const std::vector<int32_t> text = read_text(plan, i);
        if (plan.samples[i]) sample(plan, i, text, result);
        result.cu_tokens.push_back(static_cast<int32_t>(result.tokens.size()));
    }
    return result;
}

void FakeWorker::copy(const StepPlan& plan) {
    for (size_t i = 0; i < plan.slot_copies.size(); i += 2) {
        states_.at(static_cast<size_t>(plan.slot_copies[i + 1])) = states_.at(static_cast<size_t>(plan.slot_copies[i]));
    }
    for (size_t i = 0; i < plan.block_copies.size(); i += 2) {
        const auto source = entries_.begin() + plan.block_copies[i] * config_.block_size;
        std::copy_n(source, config_.block_size, entries_.begin() + plan.block_copies[i + 1] * config_.block_size);
    }
}

int64_t FakeWorker::parent_of(int64_t seq_id) const {
    const auto found = parents_.find(seq_id);
    return found == parents_.end() ? seq_id : found->second;
}

void FakeWorker::sample(const StepPlan& plan, int64_t index, std::vector<int32_t> text, Result& result) {
    const int64_t seq_id = plan.seq_ids[index];
    const std::vector<int32_t> drafts(text.end() - plan.num_drafts[index], text.end());
    text.resize(text.size() - drafts.size());
    const auto num_generated = static_cast<int64_t>(text.size()) - plan.prompt_lens[index];
    require(plan.output_indices[index] == num_generated, "output index ", plan.output_indices[index]);
    const std::vector<int32_t> base = text;
    for (size_t k = 0; k <= drafts.size(); ++k) {
        text.push_back(next_token(text, choice_of(seq_id)));
        result.tokens.push_back(text.back());
        if (k < drafts.size() && text.back() != drafts[k]) break;
    }
    draft(text, choice_of(seq_id), result);
    for (int32_t i = plan.cu_forks[index]; i < plan.cu_forks[index + 1]; ++i) {
        require(num_generated == 0, "sequence ", seq_id, " forks late");
        parents_[plan.fork_seq_ids[i]] = seq_id;
        const int64_t choice = choice_of(plan.fork_seq_ids[i]);
        text = base;
        text.push_back(next_token(base, choice));
        result.tokens.push_back(text.back());
        draft(text, choice, result);
    }
}

// Guesses what comes next: a random number of drafts, each wrong one time in four.
void FakeWorker::draft(std::vector<int32_t> text, int64_t choice, Result& result) {
    if (config_.num_drafts == 0) return;
    const int64_t num_made = static_cast<int64_t>(random_()) % (config_.num_drafts + 1);
    for (int64_t k = 0; k < config_.num_drafts; ++k) {
        text.push_back(next_token(text, choice));
        if (random_() % 4 == 0) text.back() = static_cast<int32_t>(random_() % kVocabSize);
        result.draft_ids.push_back(k < num_made ? text.back() : -1);
        result.confidences.push_back(static_cast<float>(random_() % 1001) / 1000.0F);
    }
}

void FakeWorker::write_rows(const StepPlan& plan, int64_t index) {
    const int32_t first = plan.cu_seqlens_q[index];
    const int32_t num_rows = plan.cu_seqlens_q[index + 1] - first;
    const bool whole = !config_.enable_chunked_prefill;
    require(num_rows >= 1, "sequence ", plan.seq_ids[index], " has no row");
    require(plan.kind != StepKind::kDecode || num_rows == 1 + plan.num_drafts[index], num_rows, " rows to decode");
    require(plan.kind == StepKind::kDecode || plan.num_drafts[index] == 0, "drafts in a prefill step");
    require(plan.num_drafts[index] <= config_.num_drafts, plan.num_drafts[index], " drafts");
    const int64_t keep = config_.keep_tokens > 0 ? config_.keep_tokens : plan.prompt_lens[index];
    require(plan.consumer_starts[index] == std::max<int64_t>(plan.prompt_lens[index] - keep, 0), "consumers start at ",
            plan.consumer_starts[index]);
    require(plan.kind == StepKind::kDecode || whole || num_rows <= config_.max_prefill_chunk, num_rows,
            " rows of one sequence");
    State& state = states_.at(static_cast<size_t>(plan.state_slots[index]));
    if (plan.context_lens[index] == 0) state = {plan.seq_ids[index], 0};
    const int64_t seq_id = plan.seq_ids[index];
    const bool is_fresh = state.seq_id == parent_of(seq_id) && plan.context_lens[index] == plan.prompt_lens[index];
    // A repeated step, or rejected drafts.
    const int64_t num_ahead = state.num_tokens - plan.context_lens[index];
    const bool is_behind = plan.kind == StepKind::kDecode && num_ahead > 0 && num_ahead <= 1 + config_.num_drafts;
    require((state.seq_id == seq_id || is_fresh) && (is_behind || num_ahead == 0), "slot ", plan.state_slots[index],
            " is not that of sequence ", seq_id);
    state = {seq_id, plan.context_lens[index] + num_rows};
    for (int32_t row = first; row < first + num_rows; ++row) {
        const int32_t position = plan.positions[row];
        require(position == plan.context_lens[index] + row - first, "row ", row, " has position ", position);
        const int64_t table_index = plan.cu_blocks[index] + position / config_.block_size;
        require(table_index < plan.cu_blocks[index + 1], "position ", position, " has no block");
        const int64_t entry = plan.block_ids[table_index] * config_.block_size + position % config_.block_size;
        entries_.at(static_cast<size_t>(entry)) = {plan.seq_ids[index], plan.token_ids[row]};
    }
}

std::vector<int32_t> FakeWorker::read_text(const StepPlan& plan, int64_t index) const {
    const int32_t context_len = plan.context_lens[index];
    const int32_t len = context_len + plan.cu_seqlens_q[index + 1] - plan.cu_seqlens_q[index];
    std::vector<int32_t> text;
    for (int32_t position = 0; position < len; ++position) {
        const int64_t block = plan.block_ids[plan.cu_blocks[index] + position / config_.block_size];
        const Entry& entry =
            entries_.at(static_cast<size_t>(block * config_.block_size + position % config_.block_size));
        const bool is_shared = position < plan.prompt_lens[index] && entry.seq_id == parent_of(plan.seq_ids[index]);
        require(is_shared || entry.seq_id == plan.seq_ids[index], "position ", position, " of sequence ",
                plan.seq_ids[index], " was overwritten by sequence ", entry.seq_id);
        text.push_back(entry.token_id);
    }
    for (int32_t back = 0; back < plan.num_lookback; ++back) {
        const int32_t position = context_len - 1 - back;
        const int32_t expected = position >= 0 ? text[position] : -1;
        require(plan.lookback_ids[index * plan.num_lookback + back] == expected, "look-back ", back, " is wrong");
    }
    return text;
}

}  // namespace deepinfer::testing
