// What the layers of one forward pass share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cpu/context.hpp"
#include "cpu/model/caches.hpp"
#include "cpu/model/model_config.hpp"
#include "cpu/model/step_rows.hpp"
#include "cpu/model/workspace.hpp"
#include "cpu/ops/entry_view.hpp"

namespace deepinfer::cpu {

// Work on many rows goes in chunks of them, so that what a chunk needs stays about this large.
inline constexpr int64_t kChunkFloats = int64_t{1} << 22;
inline constexpr int64_t kSmallestChunk = 64;

// Rows of a chunk that needs floats_per_row of memory.
inline int64_t rows_per_chunk(int64_t floats_per_row) {
    return std::max(kSmallestChunk, kChunkFloats / std::max<int64_t>(floats_per_row, 1));
}

class DraftFeatures;

struct StepContext {
    Context& cpu;
    const ModelConfig& config;
    const Caches& caches;
    Workspace& workspace;

    const StepRows* rows = nullptr;  // what the layers work on now

    // Of the newest index source: entries that each row attends to [T, index_topk], -1 behind the last.
    int64_t* picks = nullptr;
    // Of the candidate source: blocks [T, candidate_blocks], -1 behind the last.
    int64_t* candidates = nullptr;

    DraftFeatures* features = nullptr;  // what the draft model takes in; nullptr without drafts

    int64_t num_rows() const { return rows->num_rows(); }
};

// Where each sequence's entries of a paged cache lie; lives in the workspace.
inline const EntryView* entry_views(StepContext& step, const VectorCache& cache) {
    const std::vector<SequenceRows>& seqs = step.rows->seqs;
    auto* views = step.workspace.take<EntryView>(std::ssize(seqs));
    for (size_t s = 0; s < seqs.size(); ++s) views[s] = cache.view(seqs[s].blocks);
    return views;
}

}  // namespace deepinfer::cpu
