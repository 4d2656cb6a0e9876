#include "cpu/model/step_rows.hpp"

#include <algorithm>

namespace deepinfer::cpu {

const EntryRows& StepRows::entries_of(int64_t ratio) const {
    return *std::find_if(entries.begin(), entries.end(), [&](const EntryRows& e) { return e.ratio == ratio; });
}

void StepRows::assign(const ModelConfig& config, const StepInput& input) {
    seqs.clear();
    positions.clear();
    row_seq.clear();
    step_rows.clear();
    for (int64_t s = 0; s < input.num_seqs; ++s) {
        SequenceRows seq;
        seq.first_row = input.cu_seqlens_q[s];
        seq.num_rows = input.cu_seqlens_q[s + 1] - seq.first_row;
        seq.start = input.context_lens[s];
        seq.state_slot = input.state_slots[s];
        seq.window_start = input.window_starts[s];
        seq.entry_start = input.entry_starts[s];
        seq.blocks = input.block_ids + input.cu_blocks[s];
        add_rows(seq, s, seq.first_row);
    }
    wanted.assign(input.wanted_rows, input.wanted_rows + input.num_wanted);
    finish(config);
}

void StepRows::assign_consumers(const ModelConfig& config, const StepInput& input, const StepRows& all) {
    seqs.clear();
    positions.clear();
    row_seq.clear();
    step_rows.clear();
    for (int64_t s = 0; s < input.num_seqs; ++s) {
        SequenceRows seq = all.seqs[static_cast<size_t>(s)];
        const int64_t first_kept = input.consumer_starts[s];
        const int64_t skipped =
            config.yoco == YocoMode::kCompact ? std::clamp<int64_t>(first_kept - seq.start, 0, seq.num_rows) : 0;
        if (seq.num_rows == skipped) continue;
        const int64_t first_step_row = seq.first_row + skipped;
        seq.first_row = num_rows();
        seq.num_rows -= skipped;
        seq.start += skipped;
        seq.window_start = std::max(seq.window_start, first_kept);
        add_rows(seq, static_cast<int64_t>(seqs.size()), first_step_row);
    }
    wanted.clear();
    for (int64_t row : all.wanted) {
        const auto place = std::lower_bound(step_rows.begin(), step_rows.end(), row);
        wanted.push_back(place - step_rows.begin());
    }
    finish(config);
}

void StepRows::add_rows(const SequenceRows& seq, int64_t index, int64_t first_step_row) {
    seqs.push_back(seq);
    for (int64_t i = 0; i < seq.num_rows; ++i) {
        positions.push_back(seq.start + i);
        row_seq.push_back(index);
        step_rows.push_back(first_step_row + i);
    }
}

void StepRows::finish(const ModelConfig& config) {
    num_keys = 0;
    window_index.clear();
    for (SequenceRows& seq : seqs) {
        seq.history = std::clamp<int64_t>(seq.start - seq.window_start, 0, config.window - 1);
        seq.first_key = num_keys;
        num_keys += seq.history + seq.num_rows;
        for (int64_t row = seq.first_row; row < seq.end_row(); ++row)
            for (int64_t back = config.window - 1; back >= 0; --back) {
                const bool is_seen = positions[static_cast<size_t>(row)] - back >= seq.window_start;
                window_index.push_back(is_seen ? seq.key_of_row(row) - back : kNone);
            }
    }
    for (EntryRows& group : entries) {
        group.num_visible.clear();
        group.new_rows.clear();
        group.new_starts.clear();
        for (int64_t row = 0; row < num_rows(); ++row) {
            const int64_t end = positions[static_cast<size_t>(row)] + 1;
            group.num_visible.push_back(end / group.ratio);
            const SequenceRows& seq = seqs[static_cast<size_t>(row_seq[static_cast<size_t>(row)])];
            if (end % group.ratio != 0 || end <= seq.entry_start) continue;
            group.new_rows.push_back(row);
            group.new_starts.push_back(end - group.ratio);
        }
    }
}

bool cuts_windows(const ModelConfig& config, const StepInput& input) {
    if (config.yoco == YocoMode::kOff) return false;
    for (int64_t s = 0; s < input.num_seqs; ++s)
        if (input.consumer_starts[s] > std::max<int64_t>(0, input.context_lens[s] - config.window + 1)) return true;
    return false;
}

}  // namespace deepinfer::cpu
