#include "cpu/trace.hpp"

#include <ctime>
#include <utility>

namespace deepinfer::cpu {

void TraceRecorder::start(size_t capacity) {
    events_.clear();
    events_.reserve(capacity);
    num_lost_ = 0;
    is_on_ = true;
}

std::vector<TraceEvent> TraceRecorder::stop() {
    is_on_ = false;
    return std::exchange(events_, {});
}

void TraceRecorder::add(const TraceEvent& event) noexcept {
    if (!is_on_) return;
    if (events_.size() < events_.capacity())
        events_.push_back(event);
    else
        ++num_lost_;
}

int64_t monotonic_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace deepinfer::cpu
