#include "cpu/ops/matmul.hpp"

#include <algorithm>
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

// Makes args.x what the kernel wants, [num_rows * num_groups] rows in the scratch.
void prepare(Context& context, MatmulArgs& args) {
    const int64_t dim = args.weight.num_in, padded = padded_columns(dim);
    const bool splits_pairs = args.weight.format == WeightFormat::kFp4Row32;
    const int64_t grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(args.num_groups * dim, 1));
    context.pool().for_ranges(args.num_rows, grain, [&](Range rows) {
        for (int64_t t = rows.begin; t < rows.end; ++t) {
            float* out = args.scratch + t * args.num_groups * padded;
            context.kernels().prepare_rows({args.x + t * args.x_stride, dim, out, dim, args.quantizes_x, splits_pairs},
                                           {0, args.num_groups});
        }
    });
    args.x = args.scratch;
    args.x_stride = args.num_groups * padded;
}

}  // namespace

int64_t matmul_scratch_floats(const MatmulArgs& args) {
    return needs_preparation(args) ? args.num_rows * args.num_groups * padded_columns(args.weight.num_in) : 0;
}

void matmul(Context& context, const MatmulArgs& given) {
    const TraceSpan span = context.op("matmul");
    if (given.num_rows == 0 || given.weight.num_out == 0) return;
    MatmulArgs args = given;
    if (needs_preparation(args)) prepare(context, args);
    const int64_t group_columns = args.num_groups == 1 ? 0 : args.x_stride / args.num_groups;
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
