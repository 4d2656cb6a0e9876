#include "cpu/ops/select_blocks.hpp"

#include <algorithm>

#include "cpu/context.hpp"
#include "cpu/ops/select_topk.hpp"

namespace deepinfer::cpu {

void select_blocks(Context& context, const SelectBlocksArgs& args) {
    const TraceSpan span = context.op("select_blocks");
    const int64_t capacity = topk_capacity(args.num_blocks);
    const int64_t count = (args.num_entries + args.block_size - 1) / args.block_size + 16;
    const int64_t grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(args.num_entries, 1));
    context.pool().for_ranges(args.num_rows, grain, [&](Range rows, int thread) {
        float* memory = context.thread_scratch(thread, 3 * capacity + count);
        context.kernels().select_blocks(args, rows, memory + 3 * capacity, memory, capacity);
    });
}

}  // namespace deepinfer::cpu
