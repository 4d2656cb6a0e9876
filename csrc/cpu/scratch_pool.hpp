// Working memory of the threads that compute an op.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace deepinfer::cpu {

// One buffer for each thread of a pool. Buffers grow when more is asked for and never shrink, so a steady state does
// not allocate.
class ScratchPool {
    struct Buffer {
        std::atomic<bool> taken{false};
        std::unique_ptr<uint8_t[]> bytes;
        int64_t size = 0;
    };

  public:
    // The right to use one buffer until the end of its scope. What is in it at first is left over from somebody else.
    class Lease {
      public:
        explicit Lease(Buffer& buffer) : buffer_(buffer) {}
        ~Lease() { buffer_.taken.store(false, std::memory_order_release); }
        Lease(const Lease&) = delete;
        Lease& operator=(const Lease&) = delete;

        // At least num_bytes, on a border of 64 bytes. Another call gives the same memory or makes the old invalid.
        void* reserve(int64_t num_bytes);
        float* floats(int64_t count) { return static_cast<float*>(reserve(4 * count)); }

      private:
        Buffer& buffer_;
    };

    explicit ScratchPool(int num_threads) : buffers_(static_cast<size_t>(num_threads)) {}

    // For one part of a ThreadPool::for_ranges. Not more than num_threads at a time.
    Lease lease();

  private:
    std::vector<Buffer> buffers_;
};

}  // namespace deepinfer::cpu
