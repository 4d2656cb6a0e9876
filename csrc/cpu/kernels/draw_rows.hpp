// Kernel of ops/draw_rows.hpp.
#pragma once

#include "cpu/kernels/argmax_rows.hpp"
#include "cpu/kernels/exact_math.hpp"
#include "cpu/kernels/fixed_sum.hpp"
#include "cpu/kernels/lanes.hpp"
#include "cpu/kernels/prefix_cut.hpp"
#include "cpu/ops/draw_rows.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

// Fills the weights and what they are made of.
inline void weigh_row(WeighedRow& row, const DrawRow& request) {
    bool has_nan;
    const F32x16 largest = F32x16::set(row_maximum(row.logits, row.num_ids, has_nan));
    const F32x16 temperature = F32x16::set(request.temperature), zero = F32x16::zero();
    const F32x16 min_weight = F32x16::set(least_float(request.min_weight));
    F32x16 lowest = zero;
    FixedSum sum;
    for (int64_t i = 0; i < row.num_ids; i += 16) {
        const F32x16 logit = load_or(row.logits + i, lanes_left(row.num_ids, i), -kInfinity);
        const F32x16 shifted = (logit - largest) / temperature;
        shifted.store(row.shifted + i);
        const F32x16 e = exp(F32x16::max(F32x16::set(-64.0f), shifted)) * F32x16::set(0x1p40f);
        F32x16 weight = floor_positive(e);
        weight = F32x16::select(min_weight <= weight, weight, zero);
        weight.store(row.weights + i);
        lowest = F32x16::min(lowest, F32x16::select(zero < weight, shifted, zero));
        sum.add(weight);
    }
    row.lowest = -(zero - lowest).max_lane();
    row.total = sum.total();
}

// First id whose running sum of weights inside the cut exceeds target.
inline int64_t invert(const WeighedRow& row, const PrefixCut& cut, int64_t target) {
    constexpr int64_t kChunk = 256;
    int64_t running = 0;
    for (int64_t begin = 0; begin < row.num_ids; begin += kChunk) {
        const int64_t end = begin + kChunk < row.num_ids ? begin + kChunk : row.num_ids;
        FixedSum sum;
        for (int64_t i = begin; i < end; i += 16) sum.add(cut.kept_weights(row, i));
        const int64_t mass = sum.total();
        if (running + mass <= target) {
            running += mass;
            continue;
        }
        for (int64_t i = begin; i < end; i += 16) {
            alignas(64) float weights[16];
            cut.kept_weights(row, i).store(weights);
            for (int lane = 0; lane < 16; ++lane) {
                running += static_cast<int64_t>(weights[lane]);
                if (running > target) return i + lane;
            }
        }
    }
    return row.num_ids - 1;  // not reached: target is below the sum of all
}

// scratch: draw_scratch_floats(num_ids).
inline void draw_rows(const DrawRowsArgs& args, Range rows, float* scratch) {
    const int64_t padded = round_up_16(args.num_ids);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
        const DrawRow& request = args.rows[r];
        WeighedRow row{args.logits + r * args.stride, scratch, scratch + padded,
                       reinterpret_cast<int64_t*>(scratch + 2 * padded), args.num_ids};
        weigh_row(row, request);
        PrefixCut cut = everything(row);
        if (request.top_p < 1.0 || (request.top_k > 0 && request.top_k < args.num_ids))
            cut = find_cut(row, request.top_p, request.top_k);
        __extension__ using uint128 = unsigned __int128;
        const auto target =
            static_cast<int64_t>(static_cast<uint128>(request.word) * static_cast<uint128>(cut.mass) >> 64);
        const int64_t token = invert(row, cut, target);
        args.tokens[r] = token;
        if (args.logprobs != nullptr)
            args.logprobs[r] = row.shifted[token] - log(static_cast<float>(cut.mass) * 0x1p-40f);
    }
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
