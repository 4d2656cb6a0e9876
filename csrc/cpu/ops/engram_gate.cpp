#include "cpu/ops/engram_gate.hpp"

#include <algorithm>

#include "cpu/context.hpp"

namespace deepinfer::cpu {

void engram_gate(Context& context, const EngramGateArgs& args) {
    const TraceSpan span = context.op("engram_gate");
    const int64_t grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(args.num_streams * args.dim, 1));
    context.pool().for_ranges(args.num_rows, grain, [&](Range rows) { context.kernels().engram_gate(args, rows); });
}

}  // namespace deepinfer::cpu
