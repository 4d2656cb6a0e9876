#include "core/waiting_queue.hpp"

namespace deepinfer {

bool WaitingQueue::remove(int64_t seq_id) {
    const auto found = ranks_.find(seq_id);
    if (found == ranks_.end()) return false;
    by_rank_.erase(found->second);
    ranks_.erase(found);
    return true;
}

void WaitingQueue::insert(int64_t rank, Sequence& seq) {
    by_rank_.emplace(rank, &seq);
    ranks_.emplace(seq.id(), rank);
}

}  // namespace deepinfer
