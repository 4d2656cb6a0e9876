// What a step has to compute and to move.
#pragma once

namespace deepinfer {

// Integers, as doubles: exact below 2^53, and a total over any number of steps does not overflow.
//
// Multiply-adds of products, by operand type. Not counted: norms, rotations, quantizers, activation functions, softmax
// and gates, the pooling of the compressor, the sum of the experts' outputs; padding and whatever else a backend does
// beyond the formulas.
//
// Bytes: everything once per step, even if many rows or sequences use it. Where the data decide which experts or
// entries those are, the most that there can be: exact for one row, and where every expert or entry is reached.
struct StepCost {
    double fp8 = 0;        // FP8 matrices: attention projections, shared expert, index queries, Engram and draft inputs
    double experts = 0;    // FP4 matrices of routed experts
    double index = 0;      // index scores, FP4 operands
    double bf16 = 0;       // bf16 matrices: router, compressor, index keys and head weights, output and Markov head
    double fp32 = 0;       // hyper-connections (mix, read, write), Engram gates, weighted sum of index heads
    double attention = 0;  // q . k and weights . v over window and chosen entries

    double weight_bytes = 0;         // parameters and scales, also rows of embeddings and tables
    double cache_read_bytes = 0;     // window history, entries attended to, index keys scored, unfinished groups
    double cache_written_bytes = 0;  // rows that the rings keep, completed entries and index keys
    double activation_bytes = 0;     // streams read and written by every sublayer, float32 logits written

    double macs() const { return fp8 + experts + index + bf16 + fp32 + attention; }
    double flops() const { return 2 * macs(); }
    double bytes() const { return weight_bytes + cache_read_bytes + cache_written_bytes + activation_bytes; }
    // FLOPs weighted by operand type as the original engine weighs them (spec/engine.md 2.13): FP4 1/2, FP8 1, bf16 2,
    // fp32 4. Routed experts multiply FP8 activations and count as FP8.
    double fp8_equivalent_flops() const { return index + 2 * (fp8 + experts) + 4 * (bf16 + attention) + 8 * fp32; }

    StepCost& operator+=(const StepCost& other) {
        fp8 += other.fp8;
        experts += other.experts;
        index += other.index;
        bf16 += other.bf16;
        fp32 += other.fp32;
        attention += other.attention;
        weight_bytes += other.weight_bytes;
        cache_read_bytes += other.cache_read_bytes;
        cache_written_bytes += other.cache_written_bytes;
        activation_bytes += other.activation_bytes;
        return *this;
    }
};

}  // namespace deepinfer
