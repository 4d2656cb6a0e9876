#include "cpu/ops/score_tokens.hpp"

#include <algorithm>

#include "cpu/context.hpp"

namespace deepinfer::cpu {

void score_tokens(Context& context, const ScoreTokensArgs& args) {
    const TraceSpan span = context.op("score_tokens");
    const int64_t grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(4 * args.num_logits, 1));
    context.pool().for_ranges(args.num_rows, grain, [&](Range rows, int thread) {
        float* scratch = context.thread_scratch(thread, args.num_logits);
        context.kernels().score_tokens(args, rows, scratch);
    });
}

}  // namespace deepinfer::cpu
