// Counter-based random numbers: Philox4x32-10.
#pragma once

#include <cstdint>

namespace deepinfer::cpu {

// What a word is drawn for; a pure function of all fields, the same as deepinfer/sampling/rng.py gives.
struct RandomKey {
    uint64_t seed = 0;
    uint64_t prompt_hash = 0;
    uint32_t output_index = 0;
    uint32_t purpose = 0;  // deepinfer/sampling/purpose.py
};

uint64_t random_word(const RandomKey& key);

}  // namespace deepinfer::cpu
