// Memory for what lives no longer than one step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace deepinfer::cpu {

// A stack of arrays. It grows when a step needs more than any before it and never shrinks, so that no step allocates in
// steady state. Arrays are 64-byte aligned, hold anything at first and live until the scope that took them ends.
class Workspace {
  public:
    // Gives back, at its end, everything that was taken since its beginning.
    class Scope {
      public:
        explicit Scope(Workspace& workspace)
            : workspace_(workspace), block_(workspace.block_), used_(workspace.used_) {}
        ~Scope() { workspace_.release(block_, used_); }
        Scope(const Scope&) = delete;
        Scope& operator=(const Scope&) = delete;

      private:
        Workspace& workspace_;
        size_t block_;
        size_t used_;
    };

    template <typename T>
    T* take(int64_t count) {
        return reinterpret_cast<T*>(take_bytes(static_cast<size_t>(count) * sizeof(T)));
    }

    size_t capacity() const {
        size_t total = 0;
        for (const Block& block : blocks_) total += block.size;
        return total;
    }

  private:
    static constexpr size_t kAlignment = 64;
    static constexpr size_t kSmallestBlock = size_t{1} << 20;

    struct AlignedDelete {
        void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{kAlignment}); }
    };
    struct Block {
        std::unique_ptr<std::byte[], AlignedDelete> data;
        size_t size = 0;
    };

    std::byte* take_bytes(size_t size) {
        size = (size + kAlignment - 1) / kAlignment * kAlignment;
        while (block_ < blocks_.size() && used_ + size > blocks_[block_].size) {
            ++block_;
            used_ = 0;
        }
        if (block_ == blocks_.size()) add_block(std::max({size, kSmallestBlock, capacity()}));
        std::byte* taken = blocks_[block_].data.get() + used_;
        used_ += size;
        return taken;
    }

    void add_block(size_t size) {
        auto* data = static_cast<std::byte*>(::operator new[](size, std::align_val_t{kAlignment}));
        blocks_.push_back({std::unique_ptr<std::byte[], AlignedDelete>(data), size});
    }

    // Whoever holds nothing any more gets one block of everybody's size instead of several.
    void release(size_t block, size_t used) {
        block_ = block;
        used_ = used;
        if (block != 0 || used != 0 || blocks_.size() < 2) return;
        const size_t total = capacity();
        blocks_.clear();
        add_block(total);
    }

    std::vector<Block> blocks_;
    size_t block_ = 0;
    size_t used_ = 0;
};

}  // namespace deepinfer::cpu
