#include "cpu/ops/hc_mix.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "cpu/context.hpp"
#include "cpu/tests/all_isas.hpp"
#include "cpu/tests/random_weights.hpp"

using namespace deepinfer::cpu;

TEST_CASE("hc_mix: a row alone has the bits that it has among others, whatever the number of streams") {
    for (int64_t size : {1, 2, 3, 4, 5, 16}) {
        const int64_t dim = 19, rows = 6, num_out = size * (size + 2);
        const std::vector<float> streams = random_floats(rows * size * dim, 1),
                                 fn = random_floats(num_out * size * dim, 2);
        const std::vector<float> base = random_floats(num_out, 3), scale = {0.1f, 0.2f, 0.3f};
        std::vector<float> first;
        for (Isa isa : supported_isas()) {
            Context context(1, isa);
            std::vector<float> pre(static_cast<size_t>(rows * size)), post(pre),
                comb(static_cast<size_t>(rows * size * size));
            HcMixArgs args{streams.data(), fn.data(), base.data(), scale.data(), pre.data(), post.data(), comb.data(),
                           rows,           size,      dim,         20,           1e-6f,      1e-20f};
            hc_mix(context, args);
            if (first.empty()) first = comb;
            CHECK(comb == first);
            std::vector<float> single(static_cast<size_t>(size * size));
            for (int64_t row = 0; row < rows; ++row) {
                args.num_rows = 1;
                args.streams = streams.data() + row * size * dim;
                args.comb = single.data();
                hc_mix(context, args);
                CHECK(std::equal(single.begin(), single.end(), first.begin() + row * size * size));
            }
        }
    }
}
