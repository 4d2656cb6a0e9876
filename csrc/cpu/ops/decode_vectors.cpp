#include "cpu/ops/decode_vectors.hpp"

#include <algorithm>

#include "cpu/context.hpp"

namespace deepinfer::cpu {

void decode_vectors(Context& context, const DecodeVectorsArgs& args) {
    const TraceSpan span = context.op("decode_vectors");
    const int64_t grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(args.dim, 1));
    context.pool().for_ranges(args.num_rows, grain, [&](Range rows) { context.kernels().decode_vectors(args, rows); });
}

}  // namespace deepinfer::cpu
