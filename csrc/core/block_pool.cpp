#include "core/block_pool.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "core/message.hpp"

namespace deepinfer {

namespace {
constexpr int32_t kNone = -1;
}

BlockPool::BlockPool(int32_t num_total, std::string name) : name_(std::move(name)), num_free_(num_total) {
    if (num_total < 1) {
        throw std::invalid_argument(message("number of ", name_, "s is ", num_total, "; at least 1 is needed"));
    }
    ref_counts_.assign(static_cast<size_t>(num_total), 0);
    generations_.assign(static_cast<size_t>(num_total), 0);
    next_.resize(static_cast<size_t>(num_total));
    std::iota(next_.begin(), next_.end(), 1);
    next_.back() = kNone;
    head_ = 0;
    tail_ = num_total - 1;
}

int32_t BlockPool::allocate() {
    if (num_free_ == 0) {
        throw std::logic_error(message("no free ", name_, " left of ", num_total()));
    }
    const int32_t id = head_;
    head_ = next_[id];
    if (head_ == kNone) tail_ = kNone;
    next_[id] = kNone;
    ref_counts_[id] = 1;
    ++generations_[id];
    --num_free_;
    return id;
}

void BlockPool::revive(const std::vector<int32_t>& ids) {
    for (const int32_t id : ids) {
        if (ref_count(id) == 0) --num_free_;
        ++ref_counts_[id];
    }
    int32_t last = kNone;
    for (int32_t id = head_; id != kNone;) {
        const int32_t next = next_[id];
        if (ref_counts_[id] == 0) {
            (last == kNone ? head_ : next_[last]) = id;
            last = id;
        } else {
            next_[id] = kNone;
        }
        id = next;
    }
    if (last == kNone) {
        head_ = kNone;
    } else {
        next_[last] = kNone;
    }
    tail_ = last;
}

void BlockPool::retain(int32_t id) {
    require_in_use(id, "retain");
    ++ref_counts_[id];
}

void BlockPool::release(int32_t id) {
    require_in_use(id, "release");
    if (--ref_counts_[id] > 0) return;
    if (tail_ == kNone) {
        head_ = id;
    } else {
        next_[tail_] = id;
    }
    tail_ = id;
    ++num_free_;
}

int32_t BlockPool::ref_count(int32_t id) const {
    if (id < 0 || id >= num_total()) {
        throw std::out_of_range(message(name_, " ", id, " is outside 0..", num_total() - 1));
    }
    return ref_counts_[id];
}

void BlockPool::check() const {
    std::vector<bool> is_free(ref_counts_.size(), false);
    int32_t num_listed = 0;
    int32_t last = kNone;
    for (int32_t id = head_; id != kNone; id = next_[id]) {
        if (id < 0 || id >= num_total()) throw std::logic_error(message("free ", name_, " ", id, " does not exist"));
        if (is_free[id]) throw std::logic_error(message("free ", name_, " ", id, " is listed twice"));
        if (ref_counts_[id] != 0) {
            throw std::logic_error(message("free ", name_, " ", id, " has ", ref_counts_[id], " references"));
        }
        is_free[id] = true;
        last = id;
        ++num_listed;
    }
    if (last != tail_) throw std::logic_error(message("free list ends at ", name_, " ", last, ", not ", tail_));
    const auto num_used = std::count_if(ref_counts_.begin(), ref_counts_.end(), [](int32_t n) { return n > 0; });
    if (num_listed != num_free_ || num_used + num_free_ != num_total()) {
        throw std::logic_error(message(name_, "s: ", num_listed, " listed free, ", num_free_, " counted free, ",
                                       num_used, " in use, ", num_total(), " in all"));
    }
}

void BlockPool::require_in_use(int32_t id, const char* action) const {
    if (ref_count(id) < 1) throw std::logic_error(message("cannot ", action, " ", name_, " ", id, ": it is free"));
}

}  // namespace deepinfer
