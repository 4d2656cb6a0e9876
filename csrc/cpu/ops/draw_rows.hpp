// Temperature, min_p, top-p and top-k, and an exact draw: one token a row.
#pragma once

#include <cstdint>

namespace deepinfer::cpu {

class Context;

// What a row's request asks for.
struct DrawRow {
    float temperature = 1.0f;  // float32(min(temperature, 1e30)), > 0
    int64_t min_weight = 0;    // int(min_p * 2^40)
    double top_p = 1.0;        // 1: no limit
    int64_t top_k = 0;         // 0: no limit
    uint64_t word = 0;         // 64 random bits
};

// Bit for bit the token that deepinfer/sampling/transform.py and fixed_point.py give. Probabilities are integers in
// units of 2^-40 of the best token: floor(exp((logit - max) / temperature) * 2^40). min_p drops weights below
// min_weight. Of the ranking (logit descending, id ascending) the tokens with at most floor(top_p * total) before them
// stay, and at most top_k. The token is the first id whose running sum of what stays exceeds floor(word * total /
// 2^64).
struct DrawRowsArgs {
    const float* logits = nullptr;  // row r at logits + r * stride; no NaN, -inf allowed, a finite maximum
    const DrawRow* rows = nullptr;  // [num_rows]
    int64_t* tokens = nullptr;      // [num_rows]
    float* logprobs = nullptr;  // [num_rows] or nullptr: natural log-probability of the token in what was drawn from
    int64_t num_rows = 0;
    int64_t num_ids = 0;  // columns looked at, at most 2^22
    int64_t stride = 0;
};

// Throws std::invalid_argument for more than 2^22 ids.
void draw_rows(Context& context, const DrawRowsArgs& args);

}  // namespace deepinfer::cpu
