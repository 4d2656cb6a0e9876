#include "cpu/ops/order_statistics.hpp"

#include <algorithm>
#include <functional>

namespace deepinfer::cpu {

float kth_largest(float* values, int64_t n, int64_t k) {
    std::nth_element(values, values + (k - 1), values + n, std::greater<float>());
    return values[k - 1];
}

void sort_descending(int64_t* keys, int64_t n) {
    std::sort(keys, keys + n, std::greater<int64_t>());
}

}  // namespace deepinfer::cpu
