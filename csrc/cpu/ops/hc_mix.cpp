#include "cpu/ops/hc_mix.hpp"

#include <algorithm>

#include "cpu/context.hpp"

namespace deepinfer::cpu {

void hc_mix(Context& context, const HcMixArgs& args) {
    const TraceSpan span = context.op("hc_mix");
    check_num_streams(args.num_streams);
    const int64_t row_elements = args.num_streams * args.dim * args.num_streams * (args.num_streams + 2) / 8;
    // In fours, as many as the kernel takes side by side.
    const int64_t grain = std::max<int64_t>(1, kGrainElements / 4 / std::max<int64_t>(row_elements, 1)) * 4;
    context.pool().for_ranges(args.num_rows, grain, [&](Range rows) { context.kernels().hc_mix(args, rows); });
}

}  // namespace deepinfer::cpu
