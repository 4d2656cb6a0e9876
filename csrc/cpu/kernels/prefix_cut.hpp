// The shorter of the top-p and the top-k prefix of a row's ranking (logit descending, id ascending).
#pragma once

#include "cpu/kernels/exact_math.hpp"
#include "cpu/kernels/lanes.hpp"
#include "cpu/ops/order_statistics.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

// One row of logits as a distribution. The arrays have num_ids places, rounded up to 16.
struct WeighedRow {
    const float* logits;
    float* weights;  // integers in [0, 2^40]
    float* shifted;  // (logit - max) / temperature; -inf behind the end
    int64_t* keys;   // working memory, num_ids
    int64_t num_ids;
    float lowest = 0.0f;  // least `shifted` of a positive weight
    int64_t total = 0;    // of the weights
};

// Smallest float32 that is at least n, 0 <= n <= 2^40: a weight, being an integer float32, is below one iff below both.
inline float least_float(int64_t n) {
    float x = static_cast<float>(n);
    if (static_cast<int64_t>(x) >= n) return x;
    int32_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    ++bits;
    __builtin_memcpy(&x, &bits, sizeof bits);
    return x;
}

// Tokens up to the last kept one, and the sum of their weights.
struct PrefixCut {
    float logit;  // of the last kept token
    int64_t id;   // of the last kept token
    int64_t mass;
    bool keeps_all;

    // Weights of ids i to i + 15, zero behind the cut.
    F32x16 kept_weights(const WeighedRow& row, int64_t i) const {
        const F32x16 weights = F32x16::load(row.weights + i);
        if (keeps_all) return weights;
        const F32x16 logits = load_or(row.logits + i, lanes_left(row.num_ids, i), -kInfinity);
        const F32x16 last = F32x16::set(logit);
        const Mask16 tied = (logits == last) & (lane_numbers(i) <= F32x16::set(static_cast<float>(id)));
        return F32x16::select((last < logits) | tied, weights, F32x16::zero());
    }
};

inline PrefixCut everything(const WeighedRow& row) {
    return {-kInfinity, row.num_ids, row.total, true};
}

inline constexpr int kRungs = 256;

// Tokens by how far they are below the best: rung 0 to kRungs - 1, monotonous in the logit. Only tokens that could be
// the cut are on it; those below the least positive weight weigh nothing, so they change no draw.
struct Ladder {
    float inverse_step;
    int64_t mass[kRungs];
    int64_t count[kRungs];

    explicit Ladder(const WeighedRow& row) {
        const float step = -row.lowest / static_cast<float>(kRungs - 1);
        inverse_step = step > 1e-30f ? 1.0f / step : 0.0f;
        for (int rung = 0; rung < kRungs; ++rung) mass[rung] = count[rung] = 0;
        for (int64_t i = 0; i < row.num_ids; i += 16) {
            uint32_t taken = on_ladder(row, i).bits();
            if (taken == 0) continue;
            alignas(64) int32_t rungs[16];
            rung_of(row, i).to_int().store(rungs);
            for (; taken != 0; taken &= taken - 1) {
                const int lane = __builtin_ctz(taken);
                mass[rungs[lane]] += static_cast<int64_t>(row.weights[i + lane]);
                ++count[rungs[lane]];
            }
        }
    }

    static Mask16 on_ladder(const WeighedRow& row, int64_t i) {
        return F32x16::set(row.lowest) <= F32x16::load(row.shifted + i);
    }
    F32x16 rung_of(const WeighedRow& row, int64_t i) const {
        const F32x16 depth = (F32x16::zero() - F32x16::load(row.shifted + i)) * F32x16::set(inverse_step);
        return F32x16::min(depth.round(), F32x16::set(static_cast<float>(kRungs - 1)));
    }
};

// Integer that orders tokens by (logit descending, id ascending); +0 and -0 tie. Its low 31 bits are 2^31 - 1 - id.
inline int64_t order_key(float logit, int64_t id) {
    const float plain = logit + 0.0f;
    int32_t bits;
    __builtin_memcpy(&bits, &plain, sizeof bits);
    const int32_t ascending = bits ^ ((bits >> 31) & 0x7FFFFFFF);
    return static_cast<int64_t>(ascending) * (int64_t{1} << 32) + (0x7FFFFFFF - id);
}

// Keys of the tokens on one rung, best first; how many.
inline int64_t keys_on_rung(const WeighedRow& row, const Ladder& ladder, int rung) {
    int64_t count = 0;
    for (int64_t i = 0; i < row.num_ids; i += 16) {
        const Mask16 here = ladder.rung_of(row, i) == F32x16::set(static_cast<float>(rung));
        for (uint32_t taken = (here & Ladder::on_ladder(row, i)).bits(); taken != 0; taken &= taken - 1) {
            const int64_t id = i + __builtin_ctz(taken);
            row.keys[count++] = order_key(row.logits[id], id);
        }
    }
    sort_descending(row.keys, count);
    return count;
}

// top_p: keep tokens while the mass before them is at most top_p * total; top_k: at most so many (0: no limit).
inline PrefixCut find_cut(const WeighedRow& row, double top_p, int64_t top_k) {
    const int64_t limit = top_p < 1.0 ? static_cast<int64_t>(top_p * static_cast<double>(row.total)) : row.total;
    const int64_t most = top_k > 0 ? top_k : row.num_ids;
    const Ladder ladder(row);
    int64_t mass = 0, count = 0;  // of what is kept for certain
    int rung = 0;
    for (; rung < kRungs; ++rung) {
        if (count + ladder.count[rung] >= most || mass + ladder.mass[rung] > limit) break;
        mass += ladder.mass[rung];
        count += ladder.count[rung];
    }
    if (rung == kRungs) return everything(row);
    const int64_t num_keys = keys_on_rung(row, ladder, rung);
    int64_t last = 0;
    for (int64_t i = 0; i < num_keys && mass <= limit && count < most; ++i, ++count) {
        last = 0x7FFFFFFF - (row.keys[i] & 0xFFFFFFFF);
        mass += static_cast<int64_t>(row.weights[last]);
    }
    return {row.logits[last], last, mass, false};
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
