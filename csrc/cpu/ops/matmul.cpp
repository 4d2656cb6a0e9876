#include "cpu/ops/matmul.hpp"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>

#include "cpu/context.hpp"
#include "cpu/ops/prepare_rows.hpp"
#include "cpu/ops/product_split.hpp"
#include "cpu/ops/row_product.hpp"

namespace deepinfer::cpu {

namespace {

bool needs_preparation(const MatmulArgs& args) {
    return args.quantizes_x || args.weight.format == WeightFormat::kFp4Row32 || args.weight.num_in % kGroupColumns != 0;
}

bool takes_pairs(const MatmulArgs& args) {
    return args.weight.format != WeightFormat::kF32;
}

int64_t prepared_floats(const MatmulArgs& args) {
    return args.num_rows * args.num_groups * padded_columns(args.weight.num_in);
}

// Makes args.x what the kernel wants, [num_rows * num_groups] rows in the scratch, and pairs of it behind them where
// there are kernels for these. Returns the pairs if all rows could be packed.
const uint16_t* prepare(Context& context, MatmulArgs& args) {
    const KernelTable& kernels = context.kernels();
    const bool prepares = needs_preparation(args), packs = kernels.pack_rows != nullptr && takes_pairs(args);
    if (!prepares && !packs) return nullptr;
    const int64_t dim = args.weight.num_in, groups = args.num_groups, padded = padded_columns(dim);
    const bool splits_pairs = args.weight.format == WeightFormat::kFp4Row32;
    auto* pairs = reinterpret_cast<uint16_t*>(args.scratch + (prepares ? prepared_floats(args) : 0));
    std::atomic<bool> fit = packs;
    const int64_t grain = std::max<int64_t>(1, kPrepareGrain / std::max<int64_t>(groups * dim, 1));
    context.pool().for_ranges(args.num_rows, grain, [&](Range rows) {
        for (int64_t t = rows.begin; t < rows.end; ++t) {
            const float* x = args.x + t * args.x_stride;
            float* out = args.scratch + t * groups * padded;
            if (prepares) kernels.prepare_rows({x, dim, out, dim, args.quantizes_x, splits_pairs}, {0, groups});
            if (!fit.load(std::memory_order_relaxed)) continue;
            const PackRowsArgs pack{prepares ? out : x, padded, pairs + t * groups * padded, padded, padded};
            if (!kernels.pack_rows(pack, {0, groups})) fit.store(false, std::memory_order_relaxed);
        }
    });
    if (prepares) {
        args.x = args.scratch;
        args.x_stride = groups * padded;
    }
    return fit ? pairs : nullptr;
}

}  // namespace

int64_t matmul_scratch_floats(const MatmulArgs& args) {
    return (needs_preparation(args) ? prepared_floats(args) : 0) + (takes_pairs(args) ? prepared_floats(args) / 2 : 0);
}

void matmul(Context& context, const MatmulArgs& given) {
    const TraceSpan span = context.op("matmul");
    if (given.num_rows == 0 || given.weight.num_out == 0) return;
    MatmulArgs args = given;
    const uint16_t* pairs = prepare(context, args);
    const int64_t group_columns = args.num_groups == 1 ? 0 : args.x_stride / args.num_groups;
    const int64_t padded = padded_columns(args.weight.num_in), pairs_stride = args.num_groups * padded;
    const int64_t group_outputs = args.weight.num_out / args.num_groups;
    const ProductSplit split(args.num_rows, group_outputs, args.weight.num_in);
    const int64_t num_items = args.num_groups * split.num_items();
    context.pool().for_ranges(num_items, split.grain(), [&](Range items, int thread) {
        float* scratch = context.thread_scratch(thread, row_product_scratch_floats(args.weight.num_in));
        for (int64_t item = items.begin; item < items.end; ++item) {
            const int64_t group = item / split.num_items();
            const ProductSplit::Part part = split.part(item % split.num_items());
            const int64_t first = group * group_outputs;
            const Range outputs{first + part.outputs.begin, first + part.outputs.end};
            context.kernels().multiply_rows({.x = args.x + part.rows.begin * args.x_stride + group * group_columns,
                                             .x_stride = args.x_stride,
                                             .pairs = offset(pairs, part.rows.begin * pairs_stride + group * padded),
                                             .pairs_stride = pairs_stride,
                                             .num_rows = part.rows.size(),
                                             .weight = args.weight,
                                             .outputs = outputs,
                                             .out = args.out + part.rows.begin * args.out_stride + outputs.begin,
                                             .out_stride = args.out_stride,
                                             .rounds_bf16 = args.rounds_bf16,
                                             .scratch = scratch});
        }
    });
}

}  // namespace deepinfer::cpu
