#include <doctest/doctest.h>

#include "cpu/model/random_word.hpp"

using deepinfer::cpu::random_word;

TEST_CASE("random words: the published answers of Philox4x32-10") {
    CHECK(random_word({}) == 0xe169c58d6627e8d5u);
    CHECK(random_word({~uint64_t{0}, ~uint64_t{0}, ~uint32_t{0}, ~uint32_t{0}}) == 0x41c83b0e408f276du);
    // Digits of pi: counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0.
    CHECK(random_word({0x299f31d0a4093822u, 0x0370734413198a2eu, 0x243f6a88u, 0x85a308d3u}) == 0x94fdccebd16cfe09u);
}
