#include "cpu/ops/ngram_rows.hpp"

#include <algorithm>

#include "cpu/context.hpp"

namespace deepinfer::cpu {

namespace {

// Integer work without vectors: the same code on every instruction set.
void hash_token(const NgramRowsArgs& args, int64_t token) {
    const int64_t* ids = args.ids + token * args.n;
    const int64_t width = (args.n - 1) * args.num_heads;
    int64_t* rows = args.rows + token * width;
    if (ids[0] < 0) {
        std::fill(rows, rows + width, int64_t{-1});
        return;
    }
    const auto mixed = [&](int64_t distance) {
        return static_cast<uint64_t>(ids[distance]) * static_cast<uint64_t>(args.multipliers[distance]);
    };
    uint64_t state = mixed(0);
    for (int64_t distance = 1; distance < args.n; ++distance) {
        state ^= mixed(distance);
        for (int64_t i = (distance - 1) * args.num_heads; i < distance * args.num_heads; ++i) {
            const int64_t remainder = static_cast<int64_t>(state) % args.primes[i];
            rows[i] = args.offsets[i] + remainder + (remainder < 0 ? args.primes[i] : 0);
        }
    }
}

}  // namespace

void ngram_rows(Context& context, const NgramRowsArgs& args) {
    const TraceSpan span = context.op("ngram_rows");
    context.pool().for_ranges(args.num_tokens, 256, [&](Range tokens) {
        for (int64_t token = tokens.begin; token < tokens.end; ++token) hash_token(args, token);
    });
}

}  // namespace deepinfer::cpu
