// What one sequence holds of the caches.
#pragma once

#include <cstdint>
#include <vector>

namespace deepinfer {

// Filled and emptied by KVManager only. A fork shares the blocks that the prompt fills and has its own slot.
struct SequenceCache {
    static constexpr int32_t kNoSlot = -1;

    std::vector<int32_t> block_ids;  // block j holds tokens j*block_size .. (j+1)*block_size-1
    int32_t state_slot = kNoSlot;    // window rings and compressor state

    bool is_open() const { return state_slot != kNoSlot; }
};

}  // namespace deepinfer
