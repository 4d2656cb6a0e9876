#include "cpu/ops/draw_rows.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "cpu/context.hpp"

namespace deepinfer::cpu {

namespace {

constexpr int64_t kMaxIds = 1 << 22;  // sums of weights stay below 2^63, ids are exact as float32

}  // namespace

void draw_rows(Context& context, const DrawRowsArgs& args) {
    const TraceSpan span = context.op("draw_rows");
    if (args.num_ids > kMaxIds)
        throw std::invalid_argument("num_ids = " + std::to_string(args.num_ids) + ": at most " +
                                    std::to_string(kMaxIds));
    const int64_t padded = (args.num_ids + 15) / 16 * 16;
    // Weights, quotients, and keys of two floats each.
    const int64_t num_floats = 2 * padded + 2 * args.num_ids;
    const int64_t grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(8 * args.num_ids, 1));
    context.pool().for_ranges(args.num_rows, grain, [&](Range rows, int thread) {
        context.kernels().draw_rows(args, rows, context.thread_scratch(thread, num_floats));
    });
}

}  // namespace deepinfer::cpu
