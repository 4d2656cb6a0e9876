#include "cpu/model/decoder.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>

namespace deepinfer::cpu {

namespace {

using Clock = std::chrono::steady_clock;

// Milliseconds since `last`, which becomes now.
double lap_ms(Clock::time_point& last) {
    const Clock::time_point now = Clock::now(), before = last;
    last = now;
    return std::chrono::duration<double, std::milli>(now - before).count();
}

}  // namespace

bool Decoder::is_plain(const DecodeInput& input) const {
    for (int64_t s = 0; s < input.step.num_seqs; ++s) {
        const int64_t seq_id = input.seq_ids[s];
        if (sampler_.knows(seq_id) && !sampler_.is_plain(seq_id, input.output_indices[s])) return false;
    }
    return true;
}

bool Decoder::sample(const DecodeInput& input, DecodeResult& result) {
    const TraceSpan span = context_.call("choose");
    Clock::time_point last = Clock::now();
    find_rows(input);
    if (!choose(input, result)) return false;
    result.sample_ms = lap_ms(last);
    if (input.num_new_drafts > 0) {
        propose(input, result);
        result.draft_ms = lap_ms(last);
    }
    return true;
}

void Decoder::find_rows(const DecodeInput& input) {
    first_rows_.clear();
    first_places_.clear();
    int64_t num_rows = 0;
    for (int64_t s = 0; s < input.step.num_seqs; ++s) {
        first_rows_.push_back(input.step.cu_seqlens_q[s + 1] - 1 - input.num_drafts[s]);
        first_places_.push_back(num_rows);
        num_rows += 1 + input.num_drafts[s];
    }
    if (num_rows != model_.num_hidden())
        throw std::invalid_argument("decode: the step has " + std::to_string(num_rows) +
                                    " rows that give tokens, the latest forward pass has kept " +
                                    std::to_string(model_.num_hidden()));
}

// Row by row: the next one is looked at only while the token drawn equals the draft that stands there.
bool Decoder::choose(const DecodeInput& input, DecodeResult& result) {
    result.tokens.assign(static_cast<size_t>(input.step.num_seqs), {});
    alive_.clear();
    for (int64_t s = 0; s < input.step.num_seqs; ++s)
        if (sampler_.knows(input.seq_ids[s])) alive_.push_back(s);
    for (int64_t depth = 0; !alive_.empty(); ++depth) {
        if (!sample_alive(input, depth)) return false;
        size_t num_left = 0;
        for (size_t i = 0; i < alive_.size(); ++i) {
            const int64_t s = alive_[i], token = tokens_[i];
            result.tokens[static_cast<size_t>(s)].push_back(token);
            const int64_t draft_row = first_rows_[static_cast<size_t>(s)] + depth + 1;
            const bool is_right = depth < input.num_drafts[s] && token == input.step.token_ids[draft_row];
            if (is_right && !sampler_.ends(input.seq_ids[s], token)) alive_[num_left++] = s;
        }
        alive_.resize(num_left);
    }
    return true;
}

bool Decoder::sample_alive(const DecodeInput& input, int64_t depth) {
    places_.clear();
    seq_ids_.clear();
    indices_.clear();
    for (const int64_t s : alive_) {
        places_.push_back(first_places_[static_cast<size_t>(s)] + depth);
        seq_ids_.push_back(input.seq_ids[s]);
        indices_.push_back(input.output_indices[s] + depth);
    }
    tokens_.resize(alive_.size());
    const std::span<const float> logits = model_.logits(places_);
    sampler_.sample(context_, {logits.data(), model_.config().vocab_size}, seq_ids_, indices_, tokens_);
    return std::ranges::find(tokens_, RowSampler::kNoToken) == tokens_.end();
}

void Decoder::propose(const DecodeInput& input, DecodeResult& result) {
    DraftModel* draft = model_.draft();
    if (draft == nullptr) throw std::invalid_argument("decode: this model was loaded without its draft model");
    const auto num_seqs = static_cast<size_t>(input.step.num_seqs);
    const auto num_drafts = static_cast<size_t>(input.num_new_drafts);
    result.draft_ids.assign(num_seqs * num_drafts, kNoDraft);
    result.draft_scores.assign(num_seqs * num_drafts, 0.0F);
    for (auto* list : {&owners_, &anchors_, &last_positions_, &state_slots_, &seq_ids_, &indices_}) list->clear();
    for (size_t s = 0; s < num_seqs; ++s) {
        const std::vector<int64_t>& tokens = result.tokens[s];
        if (tokens.empty()) continue;
        const int64_t offset = first_rows_[s] - input.step.cu_seqlens_q[s];
        const int64_t last_position = input.step.context_lens[s] + offset + std::ssize(tokens) - 1;
        if (last_position + input.num_new_drafts >= input.max_positions) continue;
        owners_.push_back(static_cast<int64_t>(s));
        anchors_.push_back(tokens.back());
        last_positions_.push_back(last_position);
        state_slots_.push_back(input.step.state_slots[s]);
        seq_ids_.push_back(input.seq_ids[s]);
        indices_.push_back(input.output_indices[s] + std::ssize(tokens));
    }
    if (owners_.empty()) return;
    draft_ids_.resize(owners_.size() * num_drafts);
    draft_scores_.resize(owners_.size() * num_drafts);
    draft->run({anchors_, last_positions_, state_slots_, input.num_new_drafts});
    draft->draw(sampler_, {seq_ids_, indices_}, draft_ids_, draft_scores_);
    for (size_t i = 0; i < owners_.size(); ++i) {
        const auto into = static_cast<std::ptrdiff_t>(static_cast<size_t>(owners_[i]) * num_drafts);
        const auto from = static_cast<std::ptrdiff_t>(i * num_drafts);
        std::copy_n(draft_ids_.begin() + from, num_drafts, result.draft_ids.begin() + into);
        std::copy_n(draft_scores_.begin() + from, num_drafts, result.draft_scores.begin() + into);
    }
}

}  // namespace deepinfer::cpu
