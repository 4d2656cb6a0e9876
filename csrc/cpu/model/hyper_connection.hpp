// Manifold-constrained hyper-connections: how a sublayer reads and writes the residual streams.
#pragma once

#include "cpu/model/step_context.hpp"
#include "cpu/model/weights.hpp"

namespace deepinfer::cpu {

// The residual streams of the rows that the layers work on, and the weights that go with them.
struct Streams {
    float* values = nullptr;  // [T, S, D]
    float* pre = nullptr;     // [T, S] read weights of the next sublayer
    float* post = nullptr;    // [T, S] write weights of the running sublayer's output
    float* comb = nullptr;    // [T, S, S] stream mixing of its write
};

// Normed input [T, D] of the next sublayer.
void read_streams(StepContext& step, const HyperConnectionWeights& weights, const Streams& streams, float* x);
// Makes the running sublayer's weights and the next one's read weights; what is read with the old ones comes before.
void mix_streams(StepContext& step, const HyperConnectionWeights& weights, const Streams& streams);
// Adds the sublayer's output [T, D], in place.
void write_streams(StepContext& step, const float* out, const Streams& streams);

}  // namespace deepinfer::cpu
