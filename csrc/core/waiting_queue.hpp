// The order in which sequences wait for admission.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>

#include "core/sequence.hpp"

namespace deepinfer {

// First in, first out; a preempted sequence goes back to the front. Removing from the middle (abort) is O(log n), so
// that a job with a million waiting prompts can be cancelled one by one.
class WaitingQueue {
  public:
    bool empty() const { return by_rank_.empty(); }
    int64_t size() const { return static_cast<int64_t>(by_rank_.size()); }
    bool contains(int64_t seq_id) const { return ranks_.contains(seq_id); }
    Sequence& front() const { return *by_rank_.begin()->second; }

    void push_back(Sequence& seq) { insert(next_back_++, seq); }
    void push_front(Sequence& seq) { insert(--next_front_, seq); }
    void pop_front() { remove(front().id()); }
    // False when the sequence does not wait.
    bool remove(int64_t seq_id);

  private:
    void insert(int64_t rank, Sequence& seq);

    std::map<int64_t, Sequence*> by_rank_;
    std::unordered_map<int64_t, int64_t> ranks_;  // seq_id -> rank
    int64_t next_front_ = 0;
    int64_t next_back_ = 0;
};

}  // namespace deepinfer
