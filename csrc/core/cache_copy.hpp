// What has to be copied before a fork, or a sequence on a saved prefix, may run.
#pragma once

#include <cstdint>

namespace deepinfer {

// Made by KVManager::try_fork and open_on. The sources stay referenced until KVManager::end_copy, so that nobody else
// gets them.
struct CacheCopy {
    static constexpr int32_t kNoBlock = -1;
    static constexpr int32_t kNoSlot = -1;

    int32_t src_slot = kNoSlot;  // kNoSlot for a prefix: its windows are computed again
    int32_t dst_slot = kNoSlot;
    int32_t src_block = kNoBlock;  // the block that is shared only partly; kNoBlock when it ends on a boundary
    int32_t dst_block = kNoBlock;

    bool has_slot() const { return src_slot != kNoSlot; }
    bool has_block() const { return src_block != kNoBlock; }
};

}  // namespace deepinfer
