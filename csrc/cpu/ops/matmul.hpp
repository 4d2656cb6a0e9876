// Products of rows with a weight matrix: the ops linear, quantized_linear and grouped_linear.
#pragma once

#include <cstdint>

#include "cpu/ops/weight_matrix.hpp"

namespace deepinfer::cpu {

class Context;

// out[t, n] = sum over k of x[t, g, k] * weight[n, k], where g is the group of output n: group g has the outputs
// g * num_out / num_groups and on, and its own num_in columns of x. One group is the plain product.
//
// Sums are float32: sixteen lanes along k, columns ascending, one accumulator for each output (for FP4 a lane has a
// pair of columns, even one first), and a halving tree over the lanes at the end. A row's bits therefore depend neither
// on the number of rows nor on the split over threads. Bf16 dot products of newer CPUs, two fused multiply-adds one
// after the other, are used where they make the same bits: they flush subnormals (kernels/pack_rows.hpp).
struct MatmulArgs {
    const float* x = nullptr;  // [num_rows, num_groups * num_in]
    int64_t x_stride = 0;      // elements between rows
    WeightMatrix weight;       // num_out is a multiple of num_groups
    float* out = nullptr;      // [num_rows, num_out]; must not overlap x
    int64_t out_stride = 0;
    int64_t num_rows = 0;
    int64_t num_groups = 1;
    bool quantizes_x = false;  // x passes Q8/32 first (spec/model.md 2.3), in runs of 32 columns of a group
    bool rounds_bf16 = false;  // results are rounded to bf16 values
    float* scratch = nullptr;  // matmul_scratch_floats(args) of them
};

// May be 0. Depends on num_rows, num_groups, quantizes_x and the weight's format and num_in only.
int64_t matmul_scratch_floats(const MatmulArgs& args);

void matmul(Context& context, const MatmulArgs& args);

}  // namespace deepinfer::cpu
