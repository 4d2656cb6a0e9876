#include "cpu/ops/index_scores.hpp"

#include <algorithm>

#include "cpu/context.hpp"

namespace deepinfer::cpu {

namespace {

// A part is a block of rows times a chunk of entries: enough rows to share the decoding of a key, and enough parts of a
// single row over a long context.
constexpr int64_t kLeastRows = 8, kMostRows = 64;
constexpr int64_t kEntriesPerPart = 8 * kKeyTile;

Range part_of(int64_t index, int64_t size, int64_t count) {
    return {index * size, std::min((index + 1) * size, count)};
}

}  // namespace

void index_scores(Context& context, const IndexScoresArgs& args) {
    const TraceSpan span = context.op("index_scores");
    const int64_t num_chunks = (args.num_entries + kEntriesPerPart - 1) / kEntriesPerPart;
    const int64_t num_threads = context.pool().num_threads();
    const int64_t block = std::clamp((args.num_rows + num_threads - 1) / num_threads, kLeastRows, kMostRows);
    const int64_t num_blocks = (args.num_rows + block - 1) / block;
    context.pool().for_ranges(num_blocks * num_chunks, 1, [&](Range parts, int thread) {
        float* decoded = context.thread_scratch(thread, kKeyTile * args.dim);
        for (int64_t part = parts.begin; part < parts.end; ++part) {
            const Range rows = part_of(part / num_chunks, block, args.num_rows);
            const Range entries = part_of(part % num_chunks, kEntriesPerPart, args.num_entries);
            context.kernels().index_scores(args, rows, entries, decoded);
        }
    });
}

}  // namespace deepinfer::cpu
