#include "cpu/model/random_word.hpp"

namespace deepinfer::cpu {

uint64_t random_word(const RandomKey& key) {
    uint32_t c0 = key.output_index, c1 = key.purpose;
    auto c2 = static_cast<uint32_t>(key.prompt_hash), c3 = static_cast<uint32_t>(key.prompt_hash >> 32);
    auto k0 = static_cast<uint32_t>(key.seed), k1 = static_cast<uint32_t>(key.seed >> 32);
    for (int round = 0; round < 10; ++round) {
        const uint64_t product0 = uint64_t{c0} * 0xD2511F53u, product1 = uint64_t{c2} * 0xCD9E8D57u;
        c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ k0;
        c1 = static_cast<uint32_t>(product1);
        c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ k1;
        c3 = static_cast<uint32_t>(product0);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c0 | uint64_t{c1} << 32;
}

}  // namespace deepinfer::cpu
