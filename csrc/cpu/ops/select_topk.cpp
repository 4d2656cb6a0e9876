#include "cpu/ops/select_topk.hpp"

#include <algorithm>

#include "cpu/context.hpp"

namespace deepinfer::cpu {

namespace {

constexpr int64_t kSelectionWork = 64;  // of one entry that is taken, in entries that are looked at

}  // namespace

void select_topk(Context& context, const SelectTopkArgs& args) {
    const TraceSpan span = context.op("select_topk");
    const int64_t capacity = topk_capacity(args.k);
    const int64_t work = args.num_entries + kSelectionWork * args.k;
    const int64_t grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(work, 1));
    context.pool().for_ranges(args.num_rows, grain, [&](Range rows, int thread) {
        context.kernels().select_topk(args, rows, context.thread_scratch(thread, 3 * capacity), capacity);
    });
}

}  // namespace deepinfer::cpu
