// Embeddings of tokens as equal residual streams.
#pragma once

#include <cstdint>

namespace deepinfer::cpu {

class Context;

// Row t of out is num_streams copies of the embedding of its token (1: the embedding alone).
struct EmbedRowsArgs {
    const void* table = nullptr;      // [V, dim] bf16 or float32
    const int64_t* tokens = nullptr;  // [num_rows], each in [0, V)
    float* out = nullptr;             // [num_rows, num_streams, dim]
    int64_t num_rows = 0;
    int64_t num_streams = 1;
    int64_t dim = 0;
    bool table_is_bf16 = true;
    bool rounds_bf16 = false;
};

void embed_rows(Context& context, const EmbedRowsArgs& args);

}  // namespace deepinfer::cpu
