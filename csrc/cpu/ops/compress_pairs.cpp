#include "cpu/ops/compress_pairs.hpp"

#include <algorithm>

#include "cpu/context.hpp"

namespace deepinfer::cpu {

void compress_pairs(Context& context, const CompressPairsArgs& args) {
    const TraceSpan span = context.op("compress_pairs");
    const int64_t grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(4 * args.dim, 1));
    context.pool().for_ranges(args.num_pairs, grain, [&](Range rows) { context.kernels().compress_pairs(args, rows); });
}

}  // namespace deepinfer::cpu
