#include "cpu/model/embedding.hpp"

#include <stdexcept>
#include <string>

#include "cpu/ops/embed_rows.hpp"

namespace deepinfer::cpu {

Streams embed(StepContext& step, const WeightMatrix& embedding, const int64_t* tokens) {
    const ModelConfig& config = step.config;
    const int64_t num_rows = step.num_rows(), num_streams = config.num_streams;
    Streams streams{.values = step.workspace.take<float>(num_rows * num_streams * config.hidden_size),
                    .pre = step.workspace.take<float>(num_rows * num_streams),
                    .post = step.workspace.take<float>(num_rows * num_streams),
                    .comb = step.workspace.take<float>(num_rows * num_streams * num_streams)};
    embed_rows(step.cpu, {.table = embedding.data,
                          .tokens = tokens,
                          .out = streams.values,
                          .num_rows = num_rows,
                          .num_streams = num_streams,
                          .dim = config.hidden_size,
                          .table_is_bf16 = embedding.format == WeightFormat::kBf16,
                          .rounds_bf16 = config.rounds_bf16});
    for (int64_t i = 0; i < num_rows * num_streams; ++i) streams.pre[i] = i % num_streams == 0 ? 1.0f : 0.0f;
    return streams;
}

void check_token(const ModelConfig& config, int64_t token) {
    if (token < 0 || token >= config.vocab_size)
        throw std::invalid_argument("token " + std::to_string(token) + " is outside the vocabulary of " +
                                    std::to_string(config.vocab_size));
}

}  // namespace deepinfer::cpu
