// Table rows of tokens' hashed n-grams (Engram).
#pragma once

#include <cstdint>

namespace deepinfer::cpu {

class Context;

// Multiply-xor hash of the 2- to n-grams that end at a token: state = id[0] * m[0]; for d = 1 .. n-1: state ^= id[d] *
// m[d], and rows offset[d-1][h] + (state mod prime[d-1][h]) for every head h. Products wrap; the remainder is
// non-negative. A row whose first id is negative takes no part: its rows are -1.
struct NgramRowsArgs {
    const int64_t* ids = nullptr;          // [num_tokens, n] compressed token ids, nearest first
    const int64_t* multipliers = nullptr;  // [n]
    const int64_t* primes = nullptr;       // [n - 1, num_heads]
    const int64_t* offsets = nullptr;      // [n - 1, num_heads]
    int64_t* rows = nullptr;               // [num_tokens, (n - 1) * num_heads]
    int64_t num_tokens = 0;
    int64_t n = 0;
    int64_t num_heads = 0;
};

void ngram_rows(Context& context, const NgramRowsArgs& args);

}  // namespace deepinfer::cpu
