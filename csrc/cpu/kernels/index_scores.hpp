// Kernel of ops/index_scores.hpp.
#pragma once

#include "cpu/kernels/dots.hpp"
#include "cpu/kernels/exact_math.hpp"
#include "cpu/kernels/lanes.hpp"
#include "cpu/kernels/round.hpp"
#include "cpu/kernels/vectors.hpp"
#include "cpu/ops/index_scores.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

// Scores of four keys for one row, in lanes 0 to 3 (and repeated). Heads of a block of four are added in pairs.
inline F32x16 score_four(const IndexScoresArgs& args, int64_t row, const float* const* keys) {
    F32x16 sum = F32x16::zero();
    for (int64_t head = 0; head < args.num_heads; head += 4) {
        const int64_t at = row * args.num_heads + head, count = args.num_heads - head < 4 ? args.num_heads - head : 4;
        const F32x16 dots = dots_4x4(FourRows(args.q + at * args.dim, args.dim, count), keys, args.dim);
        alignas(64) float weights[16];
        for (int i = 0; i < 16; ++i) weights[i] = i / 4 < count ? args.head_weights[at + i / 4] : 0.0f;
        const F32x16 terms = F32x16::max(F32x16::zero(), dots) * F32x16::load(weights);
        const F32x16 used = F32x16::select(first_lanes(static_cast<int>(4 * count)), terms, F32x16::zero());
        sum = sum + used;
    }
    sum = sum + sum.swap_lanes<8>();
    return sum + sum.swap_lanes<4>();
}

// Scores of one row for keys begin .. begin + count - 1, which are at `keys` (padded to a multiple of 4).
inline void score_tile(const IndexScoresArgs& args, int64_t row, Range entries, const float* const* keys) {
    float* out = args.out + row * args.num_entries + entries.begin;
    for (int64_t n = 0; n < entries.size(); n += 4) {
        const F32x16 scaled = score_four(args, row, keys + n) * F32x16::set(args.scale);
        const int64_t left = entries.size() - n;
        round_if(args.rounds_bf16, scaled).store(out + n, left < 4 ? static_cast<int>(left) : 4);
    }
}

inline int64_t min_of(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// Rows of one view, entries of one tile; decoded: kKeyTile * dim floats.
inline void score_rows(const IndexScoresArgs& args, Range rows, Range entries, float* decoded) {
    int64_t end = entries.begin;  // of what some row sees
    for (int64_t row = rows.begin; row < rows.end; ++row)
        if (args.num_visible[row] > end) end = min_of(args.num_visible[row], entries.end);
    const EntryView& view = args.views[args.row_view[rows.begin]];
    const float* keys[kKeyTile];
    for (int64_t n = entries.begin; n < end; ++n) {
        const uint8_t* data = view.at(n);
        keys[n - entries.begin] = reinterpret_cast<const float*>(data);
        if (args.key_rounding == VectorRounding::kNone) continue;
        float* key = decoded + (n - entries.begin) * args.dim;
        decode_vector(data, key, args.dim, args.key_rounding);
        keys[n - entries.begin] = key;
    }
    for (int64_t n = end - entries.begin; n % 4 != 0; ++n) keys[n] = keys[n - 1];
    for (int64_t row = rows.begin; row < rows.end; ++row) {
        const int64_t seen = min_of(args.num_visible[row], entries.end);
        if (seen > entries.begin) score_tile(args, row, {entries.begin, seen}, keys);
        float* out = args.out + row * args.num_entries;
        for (int64_t n = seen > entries.begin ? seen : entries.begin; n < entries.end; ++n) out[n] = -kInfinity;
    }
}

inline void index_scores(const IndexScoresArgs& args, Range rows, Range entries, float* decoded) {
    for (int64_t begin = rows.begin; begin < rows.end;) {
        int64_t end = begin + 1;
        while (end < rows.end && args.row_view[end] == args.row_view[begin]) ++end;
        for (int64_t tile = entries.begin; tile < entries.end; tile += kKeyTile)
            score_rows(args, {begin, end}, {tile, min_of(tile + kKeyTile, entries.end)}, decoded);
        begin = end;
    }
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
