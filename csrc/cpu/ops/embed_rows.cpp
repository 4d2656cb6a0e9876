#include "cpu/ops/embed_rows.hpp"

#include <algorithm>

#include "cpu/context.hpp"

namespace deepinfer::cpu {

void embed_rows(Context& context, const EmbedRowsArgs& args) {
    const TraceSpan span = context.op("embed_rows");
    const int64_t grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(args.num_streams * args.dim, 1));
    context.pool().for_ranges(args.num_rows, grain, [&](Range rows) { context.kernels().embed_rows(args, rows); });
}

}  // namespace deepinfer::cpu
