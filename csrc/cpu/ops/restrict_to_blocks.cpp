#include "cpu/ops/restrict_to_blocks.hpp"

#include <algorithm>
#include <limits>

#include "cpu/context.hpp"

namespace deepinfer::cpu {

namespace {

// Copies and fills only: the same code on every instruction set. allowed: one byte for each block of a row.
void restrict_row(const RestrictToBlocksArgs& args, int64_t row, uint8_t* allowed) {
    const int64_t count = (args.num_entries + args.block_size - 1) / args.block_size;
    std::fill(allowed, allowed + count, uint8_t{0});
    for (int64_t i = 0; i < args.num_blocks; ++i) {
        const int64_t block = args.blocks[row * args.num_blocks + i];
        if (block >= 0 && block < count) allowed[block] = 1;
    }
    const float* scores = args.scores + row * args.num_entries;
    float* out = args.out + row * args.num_entries;
    for (int64_t block = 0; block < count; ++block) {
        const int64_t begin = block * args.block_size, end = std::min(begin + args.block_size, args.num_entries);
        if (allowed[block] == 0)
            std::fill(out + begin, out + end, -std::numeric_limits<float>::infinity());
        else if (out != scores)
            std::copy(scores + begin, scores + end, out + begin);
    }
}

}  // namespace

void restrict_to_blocks(Context& context, const RestrictToBlocksArgs& args) {
    const TraceSpan span = context.op("restrict_to_blocks");
    const int64_t grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(args.num_entries, 1));
    context.pool().for_ranges(args.num_rows, grain, [&](Range rows, int thread) {
        auto* allowed = reinterpret_cast<uint8_t*>(context.thread_scratch(thread, args.num_entries / 4 + 16));
        for (int64_t row = rows.begin; row < rows.end; ++row) restrict_row(args, row, allowed);
    });
}

}  // namespace deepinfer::cpu
