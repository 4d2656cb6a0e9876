// Memory that is kept from one use to the next, so that a steady state allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace deepinfer::cpu {

class Scratch {
  public:
    // At least this many floats, 64-byte aligned; pointers from before and what they held are lost.
    float* floats(int64_t count) {
        if (count > size_) {
            memory_.reset();
            size_ = 0;
            memory_.reset(new (kAlignment) float[static_cast<size_t>(count)]);
            size_ = count;
        }
        return memory_.get();
    }

  private:
    static constexpr std::align_val_t kAlignment{64};
    struct Free {
        void operator()(float* memory) const { ::operator delete[](memory, kAlignment); }
    };

    std::unique_ptr<float[], Free> memory_;
    int64_t size_ = 0;
};

}  // namespace deepinfer::cpu
