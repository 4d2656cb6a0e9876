#include "cpu/ops/encode_vectors.hpp"

#include <algorithm>

#include "cpu/context.hpp"

namespace deepinfer::cpu {

void encode_vectors(Context& context, const EncodeVectorsArgs& args) {
    const TraceSpan span = context.op("encode_vectors");
    const int64_t grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(args.dim, 1));
    context.pool().for_ranges(args.num_rows, grain, [&](Range rows) { context.kernels().encode_vectors(args, rows); });
}

}  // namespace deepinfer::cpu
