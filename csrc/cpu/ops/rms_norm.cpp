#include "cpu/ops/rms_norm.hpp"

#include <algorithm>

#include "cpu/context.hpp"

namespace deepinfer::cpu {

void rms_norm(Context& context, const RmsNormArgs& args) {
    const TraceSpan span = context.op("rms_norm");
    const int64_t grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(args.dim, 1));
    context.pool().for_ranges(args.num_rows, grain, [&](Range rows) { context.kernels().rms_norm(args, rows); });
}

}  // namespace deepinfer::cpu
