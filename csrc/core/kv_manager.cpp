#include "core/kv_manager.hpp"

#include <stdexcept>

#include "core/message.hpp"

namespace deepinfer {

KVManager::KVManager(int32_t num_blocks, int32_t block_size, int32_t num_state_slots)
    : block_size_(block_size), blocks_(num_blocks, "block"), slots_(num_state_slots, "state slot") {
    if (block_size < 1) throw std::invalid_argument(message("block_size is ", block_size, "; at least 1 is needed"));
}

bool KVManager::is_idle(int64_t num_held_blocks) const {
    return blocks_.num_free() + num_held_blocks == blocks_.num_total() && slots_.num_free() == slots_.num_total();
}

bool KVManager::can_open(int64_t num_tokens, int64_t num_spare_blocks, int64_t num_spare_slots) const {
    return num_spare_slots < slots_.num_free() && blocks_for(num_tokens) + num_spare_blocks <= blocks_.num_free();
}

void KVManager::open(SequenceCache& cache, int64_t num_tokens) {
    if (cache.is_open()) throw std::logic_error(message("cache is open already with slot ", cache.state_slot));
    if (!can_open(num_tokens, 0)) {
        throw std::logic_error(message("no room for ", num_tokens, " tokens: ", blocks_.num_free(), " blocks and ",
                                       slots_.num_free(), " state slots are free"));
    }
    cache.state_slot = slots_.allocate();
    try_grow(cache, num_tokens);
}

std::optional<CacheCopy> KVManager::open_on(SequenceCache& cache, int64_t num_tokens,
                                            const std::vector<int32_t>& blocks, int64_t num_shared) {
    const int64_t num_full = num_shared / block_size_;
    if (!can_open(num_tokens - num_full * block_size_, 0)) throw std::logic_error("no room behind a saved prefix");
    cache.block_ids.assign(blocks.begin(), blocks.begin() + num_full);
    for (const int32_t id : cache.block_ids) blocks_.retain(id);
    cache.state_slot = slots_.allocate();
    try_grow(cache, num_tokens);
    if (num_shared % block_size_ == 0) return std::nullopt;
    CacheCopy copy;
    copy.src_block = blocks.at(static_cast<size_t>(num_full));
    copy.dst_block = cache.block_ids.at(static_cast<size_t>(num_full));
    blocks_.retain(copy.src_block);
    return copy;
}

bool KVManager::try_grow(SequenceCache& cache, int64_t num_tokens) {
    if (!cache.is_open()) throw std::logic_error("cannot grow a cache that is not open");
    const int64_t num_missing = blocks_for(num_tokens) - static_cast<int64_t>(cache.block_ids.size());
    if (num_missing > blocks_.num_free()) return false;
    for (int64_t i = 0; i < num_missing; ++i) cache.block_ids.push_back(blocks_.allocate());
    return true;
}

void KVManager::shrink(SequenceCache& cache, int64_t num_tokens) {
    const auto num_kept = static_cast<size_t>(blocks_for(num_tokens));
    while (cache.block_ids.size() > num_kept) {
        blocks_.release(cache.block_ids.back());
        cache.block_ids.pop_back();
    }
}

std::optional<CacheCopy> KVManager::try_fork(const SequenceCache& parent, int64_t num_tokens, SequenceCache& fork) {
    if (!parent.is_open() || fork.is_open()) throw std::logic_error("a fork goes from an open cache to a closed one");
    const int64_t num_full = num_tokens / block_size_;
    const bool is_partial = num_tokens % block_size_ != 0;
    if (slots_.num_free() == 0 || (is_partial && blocks_.num_free() == 0)) return std::nullopt;
    fork.block_ids.assign(parent.block_ids.begin(), parent.block_ids.begin() + num_full);
    for (const int32_t id : fork.block_ids) blocks_.retain(id);
    fork.state_slot = slots_.allocate();
    CacheCopy copy{.src_slot = parent.state_slot, .dst_slot = fork.state_slot};
    slots_.retain(copy.src_slot);
    if (is_partial) {
        copy.src_block = parent.block_ids.at(static_cast<size_t>(num_full));
        copy.dst_block = blocks_.allocate();
        blocks_.retain(copy.src_block);
        fork.block_ids.push_back(copy.dst_block);
    }
    return copy;
}

void KVManager::drop_blocks(const std::vector<int32_t>& block_ids) {
    for (auto id = block_ids.rbegin(); id != block_ids.rend(); ++id) blocks_.release(*id);
}

void KVManager::end_copy(const CacheCopy& copy) {
    if (copy.has_slot()) slots_.release(copy.src_slot);
    if (copy.has_block()) blocks_.release(copy.src_block);
}

void KVManager::release(SequenceCache& cache) {
    for (auto id = cache.block_ids.rbegin(); id != cache.block_ids.rend(); ++id) blocks_.release(*id);
    cache.block_ids.clear();
    if (cache.is_open()) slots_.release(cache.state_slot);
    cache.state_slot = SequenceCache::kNoSlot;
}

void KVManager::check(const std::vector<const SequenceCache*>& open_caches, const std::vector<CacheCopy>& copies,
                      const std::vector<int32_t>& held_blocks) const {
    blocks_.check();
    slots_.check();
    std::vector<int32_t> block_refs(static_cast<size_t>(blocks_.num_total()), 0);
    std::vector<int32_t> slot_refs(static_cast<size_t>(slots_.num_total()), 0);
    for (const SequenceCache* cache : open_caches) {
        for (const int32_t id : cache->block_ids) ++block_refs.at(static_cast<size_t>(id));
        if (++slot_refs.at(static_cast<size_t>(cache->state_slot)) > 1) {
            throw std::logic_error(message("state slot ", cache->state_slot, " is held by two sequences"));
        }
    }
    for (const CacheCopy& copy : copies) {
        if (copy.has_slot()) ++slot_refs.at(static_cast<size_t>(copy.src_slot));
        if (copy.has_block()) ++block_refs.at(static_cast<size_t>(copy.src_block));
    }
    for (const int32_t id : held_blocks) ++block_refs.at(static_cast<size_t>(id));
    for (int32_t id = 0; id < blocks_.num_total(); ++id) {
        if (block_refs[id] == blocks_.ref_count(id)) continue;
        throw std::logic_error(message("block ", id, " has ", blocks_.ref_count(id), " references, but ",
                                       block_refs[id], " sequences, copies and prefixes hold it"));
    }
    for (int32_t id = 0; id < slots_.num_total(); ++id) {
        if (slot_refs[id] == slots_.ref_count(id)) continue;
        throw std::logic_error(message("state slot ", id, " has ", slots_.ref_count(id), " references, but ",
                                       slot_refs[id], " sequences and copies hold it"));
    }
}

}  // namespace deepinfer
