// How a product of rows with a matrix is cut into items of work.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/ops/row_product.hpp"
#include "cpu/range.hpp"

namespace deepinfer::cpu {

// Items are runs of outputs for runs of rows; outputs change fastest.
class ProductSplit {
  public:
    static constexpr int64_t kRows = 252;  // of an item at most: whole blocks of the kernel, decoding no longer counts

    struct Part {
        Range outputs;
        Range rows;
    };

    ProductSplit(int64_t num_rows, int64_t num_outputs, int64_t num_in)
        : num_rows_(num_rows), num_outputs_(num_outputs), num_in_(num_in) {}

    int64_t num_items() const { return num_tiles() * ((num_rows_ + kRows - 1) / kRows); }

    // Items worth a thread's attention, in sum about kWork multiplications; decoding a weight counts as kDecode of
    // them.
    int64_t grain() const {
        const int64_t work = kTileOutputs * std::max<int64_t>(num_in_, 1) * (kDecode + std::min(num_rows_, kRows));
        return std::max<int64_t>(1, kWork / work);
    }

    Part part(int64_t item) const {
        const int64_t tile = item % num_tiles(), chunk = item / num_tiles();
        return {{tile * kTileOutputs, std::min((tile + 1) * kTileOutputs, num_outputs_)},
                {chunk * kRows, std::min((chunk + 1) * kRows, num_rows_)}};
    }

  private:
    static constexpr int64_t kWork = 1 << 17;
    static constexpr int64_t kDecode = 3;

    int64_t num_tiles() const { return (num_outputs_ + kTileOutputs - 1) / kTileOutputs; }

    int64_t num_rows_, num_outputs_, num_in_;
};

}  // namespace deepinfer::cpu
