#include "cpu/model/hyper_connection.hpp"

#include "cpu/ops/hc_mix.hpp"
#include "cpu/ops/hc_read.hpp"
#include "cpu/ops/hc_write.hpp"

namespace deepinfer::cpu {

void read_streams(StepContext& step, const HyperConnectionWeights& weights, const Streams& streams, float* x) {
    hc_read(step.cpu, {.streams = streams.values,
                       .pre = streams.pre,
                       .norm_weight = weights.norm,
                       .out = x,
                       .num_rows = step.num_rows(),
                       .num_streams = step.config.num_streams,
                       .dim = step.config.hidden_size,
                       .eps = step.config.norm_eps,
                       .norms = true,
                       .rounds_bf16 = step.config.rounds_bf16});
}

void mix_streams(StepContext& step, const HyperConnectionWeights& weights, const Streams& streams) {
    hc_mix(step.cpu, {.streams = streams.values,
                      .fn = weights.fn,
                      .base = weights.base,
                      .scale = weights.scale,
                      .pre = streams.pre,
                      .post = streams.post,
                      .comb = streams.comb,
                      .num_rows = step.num_rows(),
                      .num_streams = step.config.num_streams,
                      .dim = step.config.hidden_size,
                      .sinkhorn_iters = step.config.sinkhorn_iters,
                      .eps = step.config.hc_eps,
                      .norm_eps = step.config.norm_eps});
}

void write_streams(StepContext& step, const float* out, const Streams& streams) {
    hc_write(step.cpu, {.streams = streams.values,
                        .out = out,
                        .post = streams.post,
                        .comb = streams.comb,
                        .new_streams = streams.values,
                        .num_rows = step.num_rows(),
                        .num_streams = step.config.num_streams,
                        .dim = step.config.hidden_size,
                        .rounds_bf16 = step.config.rounds_bf16});
}

}  // namespace deepinfer::cpu
