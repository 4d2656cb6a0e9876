#include "cpu/model/head.hpp"

#include <algorithm>

#include "cpu/model/linear.hpp"
#include "cpu/ops/hc_read.hpp"

namespace deepinfer::cpu {

void final_hidden(StepContext& step, const float* norm, const Streams& streams, float* hidden) {
    const ModelConfig& config = step.config;
    const int64_t num_streams = config.num_streams, dim = config.hidden_size;
    const std::vector<int64_t>& wanted = step.rows->wanted;
    for (size_t begin = 0; begin < wanted.size();) {  // runs of consecutive rows
        size_t end = begin + 1;
        while (end < wanted.size() && wanted[end] == wanted[end - 1] + 1) ++end;
        hc_read(step.cpu, {.streams = streams.values + wanted[begin] * num_streams * dim,
                           .pre = streams.pre + wanted[begin] * num_streams,
                           .norm_weight = norm,
                           .out = hidden + static_cast<int64_t>(begin) * dim,
                           .num_rows = static_cast<int64_t>(end - begin),
                           .num_streams = num_streams,
                           .dim = dim,
                           .eps = config.norm_eps,
                           .norms = true,
                           .rounds_bf16 = config.rounds_bf16});
        begin = end;
    }
}

void output_logits(StepContext& step, const WeightMatrix& head, const float* hidden, int64_t num_rows, float* logits) {
    linear(step, head, {.x = hidden, .out = logits, .num_rows = num_rows, .keeps_fp32 = true});
}

}  // namespace deepinfer::cpu
