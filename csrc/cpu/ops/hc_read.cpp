#include "cpu/ops/hc_read.hpp"

#include <algorithm>

#include "cpu/context.hpp"

namespace deepinfer::cpu {

void hc_read(Context& context, const HcReadArgs& args) {
    const TraceSpan span = context.op("hc_read");
    check_num_streams(args.num_streams);
    const int64_t grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(args.num_streams * args.dim, 1));
    context.pool().for_ranges(args.num_rows, grain, [&](Range rows) { context.kernels().hc_read(args, rows); });
}

}  // namespace deepinfer::cpu
