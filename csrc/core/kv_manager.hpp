// Hands cache blocks and state slots to sequences.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/block_pool.hpp"
#include "core/cache_copy.hpp"
#include "core/sequence_cache.hpp"

namespace deepinfer {

// A sequence with an open cache holds one state slot and the blocks of its block table. Opening and growing are all or
// nothing; release is idempotent. Not thread-safe.
class KVManager {
  public:
    // block_size: tokens per block. Throws std::invalid_argument if a number is below 1.
    KVManager(int32_t num_blocks, int32_t block_size, int32_t num_state_slots);

    int64_t blocks_for(int64_t num_tokens) const { return (num_tokens + block_size_ - 1) / block_size_; }
    int64_t block_size() const { return block_size_; }
    int64_t capacity_tokens() const { return int64_t{block_size_} * blocks_.num_total(); }
    int32_t num_free_blocks() const { return blocks_.num_free(); }
    int32_t num_free_state_slots() const { return slots_.num_free(); }
    // Nothing is in use but so many blocks.
    bool is_idle(int64_t num_held_blocks = 0) const;

    // Whether a slot is free, and blocks for num_tokens, with so many slots and blocks left over.
    bool can_open(int64_t num_tokens, int64_t num_spare_blocks, int64_t num_spare_slots = 0) const;
    // Gives a closed cache its slot and blocks for num_tokens. Throws std::logic_error when can_open says no.
    void open(SequenceCache& cache, int64_t num_tokens);
    // The same, with the first num_shared tokens from `blocks`, which somebody else holds: full ones are shared, a
    // partly filled one is to be copied. Empty when that is not needed.
    std::optional<CacheCopy> open_on(SequenceCache& cache, int64_t num_tokens, const std::vector<int32_t>& blocks,
                                     int64_t num_shared);
    // Extends an open cache to num_tokens; false, and nothing changed, when blocks are short.
    bool try_grow(SequenceCache& cache, int64_t num_tokens);
    // Gives back the blocks of an open cache that num_tokens tokens do not need.
    void shrink(SequenceCache& cache, int64_t num_tokens);
    // Opens `fork` on the first num_tokens tokens of an open cache: full blocks are shared (nobody writes to them any
    // more), a slot and a partly filled block are its own, to be filled by the copy. Empty when these are not free.
    std::optional<CacheCopy> try_fork(const SequenceCache& parent, int64_t num_tokens, SequenceCache& fork);
    // The copy was made, or is not wanted any more.
    void end_copy(const CacheCopy& copy);
    // Returns everything the cache holds. Blocks go back last one first, so that the beginning of a text stays longest.
    void release(SequenceCache& cache);

    // Blocks of saved prefixes.
    int64_t generation(int32_t block_id) const { return blocks_.generation(block_id); }
    void hold_blocks(const std::vector<int32_t>& block_ids) { blocks_.revive(block_ids); }
    void drop_blocks(const std::vector<int32_t>& block_ids);

    // Throws std::logic_error unless `open_caches`, `copies` and `held_blocks` account for every reference. O(blocks).
    void check(const std::vector<const SequenceCache*>& open_caches, const std::vector<CacheCopy>& copies = {},
               const std::vector<int32_t>& held_blocks = {}) const;

  private:
    int32_t block_size_;
    BlockPool blocks_;
    BlockPool slots_;
};

}  // namespace deepinfer
