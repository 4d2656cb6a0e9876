#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "cpu/context.hpp"
#include "cpu/isa.hpp"
#include "cpu/ops/decode_vectors.hpp"

using namespace deepinfer::cpu;

TEST_CASE("runs of any sizes decode like one run of all their vectors, on any number of threads") {
    constexpr int64_t kDim = 64;
    const int64_t bytes = packed_bytes(VectorRounding::kFp8Group32, kDim);
    const std::vector<int64_t> sizes = {1, 700, 3, 0, 64, 1000, 1};
    int64_t total = 0;
    for (int64_t size : sizes) total += size;
    std::vector<uint8_t> data(static_cast<size_t>(total * bytes));
    std::mt19937 random(3);
    for (uint8_t& byte : data) byte = static_cast<uint8_t>(random() % 120);
    std::vector<float> want(static_cast<size_t>(total * kDim));
    DecodeVectorsArgs all{.data = data.data(),
                          .data_stride = bytes,
                          .out = want.data(),
                          .out_stride = kDim,
                          .num_rows = total,
                          .dim = kDim,
                          .rounding = VectorRounding::kFp8Group32};
    Context one(1, best_isa());
    decode_vectors(one, all);
    for (int threads : {1, 3}) {
        Context context(threads, best_isa());
        std::vector<float> out(want.size());
        std::vector<DecodeVectorsArgs> runs;
        int64_t done = 0;
        for (int64_t size : sizes) {
            runs.push_back(all);
            runs.back().data += done * bytes;
            runs.back().out = out.data() + done * kDim;
            runs.back().num_rows = size;
            done += size;
        }
        decode_runs(context, runs);
        CHECK(out == want);
    }
}
