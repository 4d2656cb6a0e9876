// Where the vectors of one sequence (or of one row) lie.
#pragma once

#include <cstdint>

namespace deepinfer::cpu {

// Entry e is at data + (block_table[e / entries_per_block] * entries_per_block + e % entries_per_block) * entry_bytes;
// without a block table at data + e * entry_bytes.
struct EntryView {
    const uint8_t* data = nullptr;
    const int32_t* block_table = nullptr;  // nullptr: entries are consecutive
    int64_t entries_per_block = 0;
    int64_t entry_bytes = 0;

    [[gnu::always_inline]] inline const uint8_t* at(
        int64_t entry) const {  // never linked from a file of another target
        if (block_table == nullptr) return data + entry * entry_bytes;
        const int64_t block = block_table[entry / entries_per_block];
        return data + (block * entries_per_block + entry % entries_per_block) * entry_bytes;
    }
};

}  // namespace deepinfer::cpu
