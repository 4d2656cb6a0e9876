#include "cpu/model/draft_features.hpp"

#include <algorithm>

#include "cpu/model/window.hpp"
#include "cpu/ops/stream_mean.hpp"

namespace deepinfer::cpu {

DraftFeatures::DraftFeatures(StepContext& step, int64_t num_entries) : num_entries_(num_entries) {
    int64_t most_kept = 0;
    for (const SequenceRows& seq : step.rows->seqs) most_kept += std::min(seq.num_rows, num_entries);
    for (const LayerRole& role : step.config.layers) num_targets_ += role.draft_target != kNone ? 1 : 0;
    values_ = step.workspace.take<float>(most_kept * num_targets_ * step.config.hidden_size);
}

void DraftFeatures::add(StepContext& step, int64_t target, const float* streams) {
    const int64_t dim = step.config.hidden_size, stream_floats = step.config.num_streams * dim;
    rows_ = step.rows;
    num_kept_ = 0;
    for (const SequenceRows& seq : rows_->seqs) {
        const int64_t first = first_kept_row(seq, num_entries_), count = seq.end_row() - first;
        const Workspace::Scope scope(step.workspace);
        float* means = step.workspace.take<float>(count * dim);
        stream_mean(step.cpu, {.streams = streams + first * stream_floats,
                               .out = means,
                               .num_rows = count,
                               .num_streams = step.config.num_streams,
                               .dim = dim,
                               .rounds_bf16 = step.config.rounds_bf16});
        for (int64_t i = 0; i < count; ++i)
            std::copy_n(means + i * dim, dim, values_ + ((num_kept_ + i) * num_targets_ + target) * dim);
        num_kept_ += count;
    }
}

}  // namespace deepinfer::cpu
