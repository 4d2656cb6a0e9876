#include "cpu/ops/apply_rope.hpp"

#include <algorithm>

#include "cpu/context.hpp"

namespace deepinfer::cpu {

void apply_rope(Context& context, const ApplyRopeArgs& args) {
    const TraceSpan span = context.op("apply_rope");
    const int64_t grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(args.num_heads * args.dim, 1));
    context.pool().for_ranges(args.num_rows, grain, [&](Range rows, int thread) {
        float* scratch = context.thread_scratch(thread, 2 * args.rotated);
        context.kernels().apply_rope(args, rows, scratch);
    });
}

}  // namespace deepinfer::cpu
