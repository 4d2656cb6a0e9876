#include "cpu/ops/argmax_rows.hpp"

#include <algorithm>

#include "cpu/context.hpp"

namespace deepinfer::cpu {

void argmax_rows(Context& context, const ArgmaxRowsArgs& args) {
    const TraceSpan span = context.op("argmax_rows");
    const int64_t grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(args.num_ids, 1));
    context.pool().for_ranges(args.num_rows, grain, [&](Range rows) { context.kernels().argmax_rows(args, rows); });
}

}  // namespace deepinfer::cpu
