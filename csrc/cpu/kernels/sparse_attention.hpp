// Kernel of ops/sparse_attention.hpp.
#pragma once

#include "cpu/kernels/dots.hpp"
#include "cpu/kernels/exact_math.hpp"
#include "cpu/kernels/lanes.hpp"
#include "cpu/kernels/round.hpp"
#include "cpu/kernels/vectors.hpp"
#include "cpu/ops/sparse_attention.hpp"
#include "cpu/simd/f32x16.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

// One row's keys: pointers to float32 vectors, padded to a multiple of 16 with the last one.
struct AttentionKeys {
    const float** key;
    int64_t count = 0;
};

// Present window places first, then present entries, decoded to `decoded` unless they are floats already.
inline void gather_keys(const SparseAttentionArgs& args, int64_t row, float* decoded, AttentionKeys& keys) {
    const int64_t* index = args.window_index + row * args.window_size;
    for (int64_t i = 0; i < args.window_size; ++i)
        if (index[i] >= 0) keys.key[keys.count++] = args.window + index[i] * args.dim;
    if (args.views != nullptr) {
        const EntryView& view = args.views[args.row_view == nullptr ? row : args.row_view[row]];
        const int64_t* picks = args.picks + row * args.num_picks;
        for (int64_t i = 0; i < args.num_picks; ++i) {
            if (picks[i] < 0) continue;
            const uint8_t* data = view.at(picks[i]);
            if (args.entry_rounding == VectorRounding::kNone) {
                keys.key[keys.count++] = reinterpret_cast<const float*>(data);
                continue;
            }
            decode_vector(data, decoded, args.dim, args.entry_rounding);
            keys.key[keys.count++] = decoded;
            decoded += args.dim;
        }
    }
    if (keys.count == 0) return;
    for (int64_t i = keys.count; i < round_up_16(keys.count); ++i) keys.key[i] = keys.key[keys.count - 1];
}

// Puts the softmax numerators of one head in place of its unscaled logits (zeros behind the end) and gives their sum,
// that of the sink included.
inline float exponentiate(float* logits, int64_t count, float scale, float sink) {
    F32x16 largest = F32x16::set(sink);
    for (int64_t i = 0; i < count; i += 16) {
        const F32x16 logit = F32x16::load(logits + i) * F32x16::set(scale);
        logit.store(logits + i);
        largest = F32x16::max(largest, F32x16::select(first_lanes(lanes_left(count, i)), logit, largest));
    }
    largest = F32x16::set(largest.max_lane());
    F32x16 sum = F32x16::zero();
    for (int64_t i = 0; i < count; i += 16) {
        const F32x16 e = exp(F32x16::load(logits + i) - largest);
        const F32x16 weight = F32x16::select(first_lanes(lanes_left(count, i)), e, F32x16::zero());
        weight.store(logits + i);
        sum = sum + weight;
    }
    return sum.sum() + exp(F32x16::set(sink) - largest).max_lane();
}

// kVectors * 16 columns from column i of the weighted sums of four heads; `lanes` in the last vector.
template <int kVectors>
void weigh_columns(const AttentionKeys& keys, const float* const (&weights)[4], int64_t i, int lanes,
                   F32x16 (&sums)[4][kVectors]) {
    for (auto& head : sums)
        for (F32x16& sum : head) sum = F32x16::zero();
    for (int64_t n = 0; n < keys.count; ++n) {
        F32x16 value[kVectors];
        for (int v = 0; v + 1 < kVectors; ++v) value[v] = F32x16::load(keys.key[n] + i + 16 * v);
        const float* last = keys.key[n] + i + 16 * (kVectors - 1);
        value[kVectors - 1] = lanes == 16 ? F32x16::load(last) : F32x16::load(last, lanes);
        for (int h = 0; h < 4; ++h) {
            const F32x16 weight = F32x16::set(weights[h][n]);
            for (int v = 0; v < kVectors; ++v) sums[h][v] = F32x16::fma(weight, value[v], sums[h][v]);
        }
    }
}

// One block of up to four heads. logits: 4 * (keys rounded up to 16) floats.
class HeadBlock {
  public:
    HeadBlock(const SparseAttentionArgs& args, int64_t row, int64_t head, float* logits)
        : args_(args), head_(head), count_(args.num_heads - head < 4 ? args.num_heads - head : 4), logits_(logits) {
        const int64_t at = (row * args.num_heads + head) * args.dim;
        q_ = args.q + at;
        out_ = args.out + at;
    }

    void attend(const AttentionKeys& keys) {
        const int64_t padded = round_up_16(keys.count);
        const FourRows q(q_, args_.dim, count_);
        for (int64_t n = 0; n < keys.count; n += 4) {
            alignas(64) float dots[16];
            dots_4x4(q, keys.key + n, args_.dim).store(dots);
            for (int h = 0; h < 4; ++h) __builtin_memcpy(logits_ + h * padded + n, dots + 4 * h, 16);
        }
        for (int h = 0; h < 4; ++h) {
            weights_[h] = logits_ + h * padded;
            for (int64_t n = (keys.count + 3) / 4 * 4; n < padded; ++n) logits_[h * padded + n] = 0.0f;
            if (h < count_)
                sums_[h] = exponentiate(logits_ + h * padded, keys.count, args_.scale, args_.sink[head_ + h]);
        }
        int64_t i = 0;
        for (; i + 64 <= args_.dim; i += 64) weigh<4>(keys, i, 16);
        for (; i < args_.dim; i += 16) weigh<1>(keys, i, lanes_left(args_.dim, i));
    }

  private:
    template <int kVectors>
    void weigh(const AttentionKeys& keys, int64_t i, int lanes) {
        F32x16 sums[4][kVectors];
        weigh_columns<kVectors>(keys, weights_, i, lanes, sums);
        for (int64_t h = 0; h < count_; ++h)
            for (int v = 0; v < kVectors; ++v)
                round_if(args_.rounds_bf16, sums[h][v] / F32x16::set(sums_[h]))
                    .store(out_ + h * args_.dim + i + 16 * v, lanes);
    }

    const SparseAttentionArgs& args_;
    int64_t head_;
    int64_t count_;
    float* logits_;
    const float* q_;
    float* out_;
    const float* weights_[4];
    float sums_[4];
};

// scratch: attention_scratch_floats(args).
inline void sparse_attention(const SparseAttentionArgs& args, Range rows, float* scratch) {
    const int64_t places = round_up_16(args.window_size + args.num_picks);
    float* logits = scratch + 2 * places;
    float* decoded = logits + 4 * places;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
        AttentionKeys keys{reinterpret_cast<const float**>(scratch)};
        gather_keys(args, row, decoded, keys);
        for (int64_t head = 0; head < args.num_heads; head += 4) HeadBlock(args, row, head, logits).attend(keys);
    }
}

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
