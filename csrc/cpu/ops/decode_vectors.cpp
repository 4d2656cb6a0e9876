#include "cpu/ops/decode_vectors.hpp"

#include <algorithm>

#include "cpu/context.hpp"

namespace deepinfer::cpu {

namespace {

// Vectors that are worth a thread's attention.
int64_t vectors_per_part(int64_t dim) {
    return std::max<int64_t>(1, kGrainElements / std::max<int64_t>(dim, 1));
}

void decode_rows(Context& context, const DecodeVectorsArgs& args) {
    context.pool().for_ranges(args.num_rows, vectors_per_part(args.dim),
                              [&](Range rows) { context.kernels().decode_vectors(args, rows); });
}

}  // namespace

void decode_vectors(Context& context, const DecodeVectorsArgs& args) {
    const TraceSpan span = context.op("decode_vectors");
    decode_rows(context, args);
}

void decode_runs(Context& context, std::span<const DecodeVectorsArgs> runs) {
    const TraceSpan span = context.op("decode_vectors");
    if (runs.empty()) return;
    const int64_t part = vectors_per_part(runs[0].dim);
    int64_t num_short = 0, num_vectors = 0;
    for (const DecodeVectorsArgs& run : runs) {
        if (run.num_rows > 2 * part) {
            decode_rows(context, run);
        } else {
            ++num_short;
            num_vectors += run.num_rows;
        }
    }
    if (num_short == 0) return;
    const int64_t grain = std::max<int64_t>(1, part * num_short / std::max<int64_t>(num_vectors, 1));
    context.pool().for_ranges(std::ssize(runs), grain, [&](Range items) {
        for (int64_t i = items.begin; i < items.end; ++i) {
            const DecodeVectorsArgs& run = runs[static_cast<size_t>(i)];
            if (run.num_rows <= 2 * part) context.kernels().decode_vectors(run, {0, run.num_rows});
        }
    });
}

}  // namespace deepinfer::cpu
