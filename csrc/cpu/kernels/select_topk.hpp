// Kernel of ops/select_topk.hpp.
#pragma once

#include "cpu/kernels/exact_math.hpp"
#include "cpu/kernels/lanes.hpp"
#include "cpu/ops/order_statistics.hpp"
#include "cpu/ops/select_topk.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

// Candidates for the k best of a row that is read once, in ascending order. Whenever the buffer is full only the k best
// stay, and from then on only higher scores than the worst of them come in: an equal one has a higher number.
class TopkBuffer {
  public:
    // memory: 3 * capacity floats, capacity >= k + 16.
    TopkBuffer(float* memory, int64_t capacity, int64_t k)
        : scores_(memory),
          copy_(memory + capacity),
          numbers_(reinterpret_cast<int32_t*>(memory + 2 * capacity)),
          capacity_(capacity),
          k_(k) {}

    float threshold() const { return threshold_; }
    int64_t count() const { return count_; }
    int64_t number(int64_t i) const { return numbers_[i]; }

    // The lanes of `taken` (a mask) of 16 scores that begin at entry `first`.
    void add(F32x16 scores, uint32_t taken, int64_t first) {
        if (count_ + 16 > capacity_) prune();
        alignas(64) float lanes[16];
        scores.store(lanes);
        for (; taken != 0; taken &= taken - 1) {
            const int lane = __builtin_ctz(taken);
            scores_[count_] = lanes[lane];
            numbers_[count_++] = static_cast<int32_t>(first + lane);
        }
    }

    // Keeps the k best, in ascending order.
    void prune() {
        if (count_ <= k_) return;
        __builtin_memcpy(copy_, scores_, static_cast<size_t>(count_) * sizeof(float));
        threshold_ = kth_largest(copy_, count_, k_);
        int64_t room = k_;  // for those at the threshold
        for (int64_t i = 0; i < count_; ++i) room -= scores_[i] > threshold_;
        int64_t kept = 0;
        for (int64_t i = 0; i < count_; ++i) {
            const bool tied = scores_[i] == threshold_;
            if (scores_[i] < threshold_ || (tied && room == 0)) continue;
            room -= tied;
            scores_[kept] = scores_[i];
            numbers_[kept++] = numbers_[i];
        }
        count_ = kept;
    }

  private:
    float* scores_;
    float* copy_;
    int32_t* numbers_;
    int64_t capacity_;
    int64_t k_;
    int64_t count_ = 0;
    float threshold_ = -kInfinity;
};

// A score that at least k entries reach, found from the largest scores of parts of the row: at least 2 k parts, one
// lane each. -inf where that gives nothing. maxima: 2 * topk_capacity(k) floats.
inline float reached_by_k(const float* scores, int64_t num_entries, int64_t k, float* maxima) {
    const int64_t num_vectors = (num_entries + 15) / 16;
    const int64_t part = num_vectors * 8 / k;  // vectors
    if (part < 2) return -kInfinity;
    int64_t count = 0;
    for (int64_t begin = 0; begin < num_vectors; begin += part, count += 16) {
        const int64_t end = begin + part < num_vectors ? begin + part : num_vectors;
        F32x16 largest = F32x16::set(-kInfinity);
        for (int64_t v = begin; v < end; ++v)  // max gives its second operand where the first is NaN
            largest = F32x16::max(load_or(scores + 16 * v, lanes_left(num_entries, 16 * v), -kInfinity), largest);
        largest.store(maxima + count);
    }
    return kth_largest(maxima, count, k);
}

// picks: k numbers. memory: 3 * capacity floats.
inline void select_row(const float* scores, int64_t num_entries, int64_t k, int64_t* picks, float* memory,
                       int64_t capacity) {
    TopkBuffer buffer(memory, capacity, k);
    const F32x16 least = F32x16::set(k > 0 ? reached_by_k(scores, num_entries, k, memory) : kInfinity);
    for (int64_t i = 0; i < num_entries && k > 0; i += 16) {
        const F32x16 x = load_or(scores + i, lanes_left(num_entries, i), -kInfinity);
        const Mask16 better = F32x16::set(buffer.threshold()) < x;  // not NaN, not -inf
        const uint32_t taken = (better & (least <= x)).bits();
        if (taken == 0) continue;
        buffer.add(x, taken, i);
    }
    if (k > 0) buffer.prune();
    for (int64_t i = 0; i < k; ++i) picks[i] = i < buffer.count() ? buffer.number(i) : -1;
}

inline void select_topk(const SelectTopkArgs& args, Range rows, float* memory, int64_t capacity) {
    for (int64_t row = rows.begin; row < rows.end; ++row)
        select_row(args.scores + row * args.num_entries, args.num_entries, args.k, args.picks + row * args.k, memory,
                   capacity);
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
