// Quantizers that activations and cache vectors pass (spec/model.md 2.3).
#pragma once

#include <cstdint>

namespace deepinfer::cpu {

// * kFp8Group32, Q8/32: e4m3 codes, one power-of-two scale (E8M0 byte) per 32 columns.
// * kFp4Group32, Q4/32: e2m1 codes, one power-of-two scale (E8M0 byte) per 32 columns.
// * kFp4Group16, Q4/16e: e2m1 codes, one e4m3 scale per 16 columns.
// A last group may be partial. A group with NaN or Inf gets a NaN scale and is NaN as a whole when decoded.
enum class VectorRounding { kNone, kFp8Group32, kFp4Group32, kFp4Group16 };

// Bytes of one packed vector: codes (FP4: even column in the low nibble), then scales. dim is even for FP4.
inline int64_t packed_bytes(VectorRounding rounding, int64_t dim) {
    if (rounding == VectorRounding::kNone) return 4 * dim;
    if (rounding == VectorRounding::kFp8Group32) return dim + (dim + 31) / 32;
    return dim / 2 + (rounding == VectorRounding::kFp4Group32 ? (dim + 31) / 32 : (dim + 15) / 16);
}

}  // namespace deepinfer::cpu
