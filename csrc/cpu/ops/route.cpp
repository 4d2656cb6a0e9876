#include "cpu/ops/route.hpp"

#include <algorithm>

#include "cpu/context.hpp"

namespace deepinfer::cpu {

void route(Context& context, const RouteArgs& args) {
    const TraceSpan span = context.op("route");
    const int64_t grain =
        std::max<int64_t>(1, kGrainElements / std::max<int64_t>(args.num_experts * (8 + args.top_k), 1));
    context.pool().for_ranges(args.num_rows, grain, [&](Range rows, int thread) {
        float* scratch = context.thread_scratch(thread, 2 * (args.num_experts + 16) + args.top_k);
        context.kernels().route(args, rows, scratch);
    });
}

}  // namespace deepinfer::cpu
