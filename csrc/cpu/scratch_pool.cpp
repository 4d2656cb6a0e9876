#include "cpu/scratch_pool.hpp"

#include <algorithm>
#include <stdexcept>

namespace deepinfer::cpu {

namespace {

constexpr int64_t kAlignment = 64;

}  // namespace

void* ScratchPool::Lease::reserve(int64_t num_bytes) {
    if (num_bytes + kAlignment > buffer_.size) {
        const int64_t size = std::max(num_bytes + kAlignment, 2 * buffer_.size);
        buffer_.bytes.reset(new uint8_t[static_cast<size_t>(size)]);
        buffer_.size = size;
    }
    const auto address = reinterpret_cast<uintptr_t>(buffer_.bytes.get());
    return buffer_.bytes.get() + (kAlignment - address % kAlignment) % kAlignment;
}

ScratchPool::Lease ScratchPool::lease() {
    for (Buffer& buffer : buffers_)
        if (!buffer.taken.exchange(true, std::memory_order_acquire)) return Lease(buffer);
    throw std::logic_error("more leases than threads");
}

}  // namespace deepinfer::cpu
