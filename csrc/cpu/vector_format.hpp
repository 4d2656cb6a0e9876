// How cached vectors are rounded and stored; the same as VectorFormat in deepinfer/core/cache_spec.py.
#pragma once

#include <cstdint>

namespace deepinfer::cpu {

enum class Rounding { kNone, kFp8Group32, kFp4Group32, kFp4Group16 };

struct VectorFormat {
    int64_t dim = 0;  // values per vector
    Rounding rounding = Rounding::kNone;
    bool packed = false;  // true: the quantizer's bytes (data, then scales); false: the rounded values as float32

    bool holds_floats() const { return !packed || rounding == Rounding::kNone; }
    int64_t num_bytes() const {
        if (holds_floats()) return 4 * dim;
        if (rounding == Rounding::kFp8Group32) return dim + (dim + 31) / 32;
        return dim / 2 + (rounding == Rounding::kFp4Group32 ? (dim + 31) / 32 : (dim + 15) / 16);
    }
};

}  // namespace deepinfer::cpu
