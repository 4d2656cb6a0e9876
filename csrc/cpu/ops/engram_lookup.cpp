#include "cpu/ops/engram_lookup.hpp"

#include <algorithm>

#include "cpu/context.hpp"

namespace deepinfer::cpu {

void engram_lookup(Context& context, const EngramLookupArgs& args) {
    const TraceSpan span = context.op("engram_lookup");
    const int64_t grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(args.dim, 1));
    context.pool().for_ranges(args.num_rows, grain, [&](Range rows) { context.kernels().engram_lookup(args, rows); });
}

}  // namespace deepinfer::cpu
