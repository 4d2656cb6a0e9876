// Who computes what in a mixture of experts: rows sorted by expert, and where they lie in the scratch.
#pragma once

#include <atomic>
#include <cstdint>

#include "cpu/ops/moe.hpp"
#include "cpu/ops/product_split.hpp"

namespace deepinfer::cpu {

// Rows that products read: floats and, if all of them could be packed, pairs of them (ops/pack_rows.hpp).
class MoeRows {
  public:
    float* floats = nullptr;
    uint16_t* pairs = nullptr;
    int64_t stride = 0;  // elements between rows, of both

    const uint16_t* usable_pairs() const { return has_pairs_.load(std::memory_order_relaxed) ? pairs : nullptr; }
    // From any thread.
    void give_up_pairs() { has_pairs_.store(false, std::memory_order_relaxed); }

  private:
    std::atomic<bool> has_pairs_ = true;
};

// A slot is an assignment (row, rank); slots are sorted by expert, those of one expert by row and rank. A segment is an
// expert with rows and its slots. The shared expert with all rows, if there is one, is the first: what takes longest is
// begun first, so that threads end together.
class MoePlan {
  public:
    // An item of work: some outputs for some slots of a segment.
    struct Item {
        int64_t segment;
        ProductSplit::Part part;  // rows count from the segment's first slot
    };

    // Sorts the assignments into the scratch. Throws std::out_of_range when an id is no expert.
    explicit MoePlan(const MoeArgs& args);
    static int64_t scratch_floats(const MoeArgs& args);

    int64_t num_segments() const { return num_active_ + has_shared_; }
    bool is_shared(int64_t segment) const { return has_shared_ && segment == 0; }
    int64_t expert(int64_t segment) const { return active_[segment - has_shared_]; }
    int64_t first_slot(int64_t segment) const { return is_shared(segment) ? 0 : starts_[expert(segment)]; }
    int64_t num_slots(int64_t segment) const;

    // Cuts the products of every segment with matrices of so many outputs and columns into items.
    void split(int64_t routed_outputs, int64_t shared_outputs, int64_t num_in);
    int64_t num_items() const { return item_ends_[num_segments() - 1]; }
    int64_t grain() const { return grain_; }
    Item item(int64_t index) const;

    const int32_t* slot_rows() const { return slot_rows_; }      // [slots] row of x
    const float* slot_weights() const { return slot_weights_; }  // [slots]
    const float* ones() const { return ones_; }                  // [num_rows]
    const int32_t* slots() const { return slots_; }              // [num_rows, top_k]

    MoeRows x_plain;          // [num_rows, padded dim]
    MoeRows x_split;          // the same, even columns of a group first
    MoeRows hidden;           // [slots, padded hidden]
    MoeRows shared_hidden;    // [num_rows, padded hidden]
    float* routed = nullptr;  // [slots, dim]
    float* shared = nullptr;  // [num_rows, dim]

  private:
    void place(const MoeArgs& args);
    void sort(const MoeArgs& args);
    ProductSplit product_split(int64_t segment) const;

    bool has_shared_ = true;
    int64_t num_rows_ = 0, num_experts_ = 0, num_active_ = 0;
    int64_t routed_outputs_ = 0, shared_outputs_ = 0, num_in_ = 0, grain_ = 1;
    int32_t* starts_ = nullptr;     // [experts + 1] first slot of each
    int32_t* active_ = nullptr;     // [experts] those with rows, ascending
    int32_t* item_ends_ = nullptr;  // [experts + 1] items up to and with a segment
    int32_t* slot_rows_ = nullptr;
    int32_t* slots_ = nullptr;
    float* slot_weights_ = nullptr;
    float* ones_ = nullptr;
};

}  // namespace deepinfer::cpu
