#include "cpu/ops/hc_write.hpp"

#include <algorithm>

#include "cpu/context.hpp"

namespace deepinfer::cpu {

void hc_write(Context& context, const HcWriteArgs& args) {
    const TraceSpan span = context.op("hc_write");
    check_num_streams(args.num_streams);
    const int64_t grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(args.num_streams * args.dim, 1));
    context.pool().for_ranges(args.num_rows, grain, [&](Range rows) { context.kernels().hc_write(args, rows); });
}

}  // namespace deepinfer::cpu
