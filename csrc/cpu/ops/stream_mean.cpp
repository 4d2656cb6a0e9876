#include "cpu/ops/stream_mean.hpp"

#include <algorithm>

#include "cpu/context.hpp"

namespace deepinfer::cpu {

void stream_mean(Context& context, const StreamMeanArgs& args) {
    const TraceSpan span = context.op("stream_mean");
    check_num_streams(args.num_streams);
    const int64_t grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(args.num_streams * args.dim, 1));
    context.pool().for_ranges(args.num_rows, grain, [&](Range rows) { context.kernels().stream_mean(args, rows); });
}

}  // namespace deepinfer::cpu
