// A pool of numbered, reference-counted units: cache blocks, and state slots.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace deepinfer {

// Units are 0..num_total-1. Freed units are reused in the order in which they were freed (FIFO), so what a unit holds
// survives as long as possible. The counts exist for units that several sequences share (forks, a prefix cache).
// Not thread-safe. Misuse (allocating from an empty pool, a count below zero) is a bug: std::logic_error.
class BlockPool {
  public:
    // `name` is the word for one unit in error texts, e.g. "block". Throws std::invalid_argument unless num_total >= 1.
    BlockPool(int32_t num_total, std::string name);

    // Takes the unit that has been free for longest and gives it reference count 1.
    int32_t allocate();
    // Adds a reference to a unit in use.
    void retain(int32_t id);
    // Drops a reference; with the last one the unit is free again.
    void release(int32_t id);

    // How often the unit has been allocated: while that stays the same, nobody else has written to it.
    int64_t generation(int32_t id) const { return generations_.at(static_cast<size_t>(id)); }
    // Adds a reference to each of the units, which differ; free ones leave the free list. O(num_free).
    void revive(const std::vector<int32_t>& ids);

    int32_t num_total() const { return static_cast<int32_t>(ref_counts_.size()); }
    int32_t num_free() const { return num_free_; }
    int32_t ref_count(int32_t id) const;

    // Throws std::logic_error if the free list and the counts disagree. O(num_total).
    void check() const;

  private:
    void require_in_use(int32_t id, const char* action) const;

    std::string name_;
    std::vector<int32_t> ref_counts_;
    std::vector<int64_t> generations_;
    std::vector<int32_t> next_;  // the free list: unit -> unit freed after it, kNone at the tail
    int32_t head_;
    int32_t tail_;
    int32_t num_free_;
};

}  // namespace deepinfer
