#include "cpu/model/linear.hpp"

#include "cpu/ops/matmul.hpp"

namespace deepinfer::cpu {

void linear(StepContext& step, const WeightMatrix& weight, const LinearArgs& args) {
    const bool is_quantized = weight.scales != nullptr;
    MatmulArgs product{.x = args.x,
                       .x_stride = args.num_groups * weight.num_in,
                       .weight = weight,
                       .out = args.out,
                       .out_stride = args.out_stride > 0 ? args.out_stride : weight.num_out,
                       .num_rows = args.num_rows,
                       .num_groups = args.num_groups,
                       .quantizes_x = is_quantized && step.config.quantizes,
                       .rounds_bf16 = step.config.rounds_bf16 && !args.keeps_fp32};
    const Workspace::Scope scope(step.workspace);
    product.scratch = step.workspace.take<float>(matmul_scratch_floats(product));
    matmul(step.cpu, product);
}

}  // namespace deepinfer::cpu
