// Raw log-probability and rank of one token per row.
#pragma once

#include <cstdint>

namespace deepinfer::cpu {

class Context;

// logprobs = log-softmax over all num_logits columns at the token, bit-equal to deepinfer/sampling/logprobs.py (without
// its floor). ranks = 1 + number of tokens among the first num_ids with a higher logit, or an equal one and a lower id.
struct ScoreTokensArgs {
    const float* logits = nullptr;    // row r at logits + r * stride; no NaN
    const int64_t* tokens = nullptr;  // [num_rows]
    float* logprobs = nullptr;        // [num_rows]
    int64_t* ranks = nullptr;         // [num_rows] or nullptr
    int64_t num_rows = 0;
    int64_t num_logits = 0;
    int64_t num_ids = 0;
    int64_t stride = 0;
};

void score_tokens(Context& context, const ScoreTokensArgs& args);

}  // namespace deepinfer::cpu
