// What has to be copied before a fork may run.
#pragma once

#include <cstdint>

namespace deepinfer {

// Made by KVManager::try_fork. The sources stay referenced until KVManager::end_copy, so that nobody else gets them.
struct CacheCopy {
    static constexpr int32_t kNoBlock = -1;

    int32_t src_slot;
    int32_t dst_slot;
    int32_t src_block = kNoBlock;  // the block that the prompt fills only partly; kNoBlock when it ends on a boundary
    int32_t dst_block = kNoBlock;

    bool has_block() const { return src_block != kNoBlock; }
};

}  // namespace deepinfer
