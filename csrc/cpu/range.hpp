// A run of work items.
#pragma once

#include <cstdint>

namespace deepinfer::cpu {

struct Range {
    int64_t begin = 0;
    int64_t end = 0;

    int64_t size() const { return end - begin; }
};

}  // namespace deepinfer::cpu
