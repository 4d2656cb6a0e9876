// Scheduler::update, discard and their parts: booking what a step computed.
#include <algorithm>
#include <stdexcept>

#include "core/message.hpp"
#include "core/scheduler.hpp"

namespace deepinfer {

StepUpdate Scheduler::update(int64_t step_id, std::span<const int32_t> tokens, std::span<const int32_t> cu_tokens) {
    const std::lock_guard lock(mutex_);
    require_in_flight(step_id);
    require_valid(tokens, cu_tokens);
    StepUpdate update;
    const std::vector<PlannedRow>& rows = in_flight_->rows;
    for (size_t i = 0; i < rows.size(); ++i) {
        const auto begin = static_cast<size_t>(cu_tokens[i]);
        commit(rows[i], tokens.subspan(begin, static_cast<size_t>(cu_tokens[i + 1]) - begin), update);
    }
    in_flight_.reset();
    retire_finished(update);
    return update;
}

void Scheduler::discard(int64_t step_id) {
    const std::lock_guard lock(mutex_);
    require_in_flight(step_id);
    for (const PlannedRow& row : in_flight_->rows) {
        if (Sequence* seq = find_in_flight(row)) seq->cancel_step();
    }
    in_flight_.reset();
}

// Null when the row's sequence was removed after planning, even if a new one has its id.
Sequence* Scheduler::find_in_flight(const PlannedRow& row) const {
    Sequence* seq = find(row.seq_id);
    return seq != nullptr && seq->step_in_flight() == in_flight_->step_id ? seq : nullptr;
}

void Scheduler::require_in_flight(int64_t step_id) const {
    if (in_flight_ && in_flight_->step_id == step_id) return;
    const std::string expected = in_flight_ ? message("step ", in_flight_->step_id, " is") : std::string("no step is");
    throw std::invalid_argument(message("step_id is ", step_id, ", but ", expected, " in flight"));
}

void Scheduler::require_valid(std::span<const int32_t> tokens, std::span<const int32_t> cu_tokens) const {
    const std::vector<PlannedRow>& rows = in_flight_->rows;
    if (cu_tokens.size() != rows.size() + 1) {
        throw std::invalid_argument(message("cu_tokens has ", cu_tokens.size(), " entries; the step's ", rows.size(),
                                            " sequences need ", rows.size() + 1));
    }
    if (cu_tokens.front() != 0 || cu_tokens.back() != static_cast<int64_t>(tokens.size())) {
        throw std::invalid_argument(message("cu_tokens goes from ", cu_tokens.front(), " to ", cu_tokens.back(),
                                            "; it must go from 0 to the number of tokens, ", tokens.size()));
    }
    const auto falls = std::is_sorted_until(cu_tokens.begin(), cu_tokens.end());
    if (falls != cu_tokens.end()) {
        throw std::invalid_argument(message("cu_tokens falls to ", *falls, " at entry ", falls - cu_tokens.begin()));
    }
    for (size_t i = 0; i < rows.size(); ++i) {
        const Sequence* seq = find_in_flight(rows[i]);
        if (seq == nullptr) continue;
        // With drafts this will be 1..num_rows: the accepted drafts and one token more.
        const int32_t num_expected = rows[i].samples ? 1 : 0;
        const int32_t num_given = cu_tokens[i + 1] - cu_tokens[i];
        if (num_given != num_expected) {
            throw std::invalid_argument(
                message("sequence ", rows[i].seq_id, " got ", num_given, " tokens; this step gives it ", num_expected));
        }
    }
    const auto negative = std::find_if(tokens.begin(), tokens.end(), [](int32_t id) { return id < 0; });
    if (negative != tokens.end()) {
        throw std::invalid_argument(
            message("tokens[", negative - tokens.begin(), "] is ", *negative, "; ids are >= 0"));
    }
}

void Scheduler::commit(const PlannedRow& row, std::span<const int32_t> tokens, StepUpdate& update) {
    Sequence* seq = find_in_flight(row);
    if (seq == nullptr) return;
    FinishReason reason;
    if (row.samples) {
        const int64_t num_taken = seq->commit_tokens(tokens, reason);
        tokens = tokens.first(static_cast<size_t>(num_taken));
        stats_.num_generated_tokens += num_taken;
    } else {
        reason = seq->commit_rows(row.num_rows);
        if (reason == FinishReason::kRunning) return;
    }
    update.append(seq->id(), tokens, reason);
    stats_.num_finished_stop += reason == FinishReason::kStop;
    stats_.num_finished_length += reason == FinishReason::kLength;
}

// Frees and forgets the sequences that the update reports as finished.
void Scheduler::retire_finished(const StepUpdate& update) {
    std::erase_if(running_, [](const Sequence* seq) { return seq->status() == SequenceStatus::kFinished; });
    for (size_t i = 0; i < update.seq_ids.size(); ++i) {
        if (update.finish_reasons[i] == FinishReason::kRunning) continue;
        kv_.release(find(update.seq_ids[i])->cache());
        sequences_.erase(update.seq_ids[i]);
    }
}

}  // namespace deepinfer
