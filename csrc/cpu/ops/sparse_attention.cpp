#include "cpu/ops/sparse_attention.hpp"

#include <algorithm>

#include "cpu/context.hpp"

namespace deepinfer::cpu {

void sparse_attention(Context& context, const SparseAttentionArgs& args) {
    const TraceSpan span = context.op("sparse_attention");
    const int64_t places = (args.window_size + args.num_picks + 15) / 16 * 16;
    const bool decodes = args.views != nullptr && args.entry_rounding != VectorRounding::kNone;
    // Key pointers (two floats each), logits of four heads, decoded entries.
    const int64_t num_floats = 6 * places + (decodes ? args.num_picks * args.dim : 0);
    const int64_t work = std::max<int64_t>(1, places * args.num_heads * args.dim / 8);
    context.pool().for_ranges(args.num_rows, std::max<int64_t>(1, kGrainElements / work), [&](Range rows, int thread) {
        context.kernels().sparse_attention(args, rows, context.thread_scratch(thread, num_floats));
    });
}

}  // namespace deepinfer::cpu
