// Kernel of ops/select_blocks.hpp.
#pragma once

#include "cpu/kernels/lanes.hpp"
#include "cpu/kernels/select_topk.hpp"
#include "cpu/ops/select_blocks.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

// Largest of n values; NaN counts as -inf.
inline float largest_number(const float* x, int64_t n) {
    F32x16 largest = F32x16::set(-kInfinity);
    for (int64_t i = 0; i < n; i += 16) {
        // max gives its second operand where the first is NaN
        largest = F32x16::max(load_or(x + i, lanes_left(n, i), -kInfinity), largest);
    }
    return largest.max_lane();
}

// best: one float for each block of a row, rounded up to 16; memory as in select_row.
inline void select_blocks(const SelectBlocksArgs& args, Range rows, float* best, float* memory, int64_t capacity) {
    const int64_t count = (args.num_entries + args.block_size - 1) / args.block_size;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
        const float* scores = args.scores + row * args.num_entries;
        for (int64_t block = 0; block < count; ++block) {
            const int64_t begin = block * args.block_size, left = args.num_entries - begin;
            best[block] = largest_number(scores + begin, left < args.block_size ? left : args.block_size);
        }
        const int64_t newest = args.num_visible[row] - 1;
        if (newest >= 0 && newest / args.block_size < count) best[newest / args.block_size] = kInfinity;
        select_row(best, count, args.num_blocks, args.blocks + row * args.num_blocks, memory, capacity);
    }
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
