// Vectors from the bytes that a cache stores.
#pragma once

#include <cstdint>
#include <span>

#include "cpu/ops/vector_rounding.hpp"

namespace deepinfer::cpu {

class Context;

// The inverse of encode_vectors: code * scale, exactly.
struct DecodeVectorsArgs {
    const uint8_t* data = nullptr;  // [num_rows, packed_bytes(rounding, dim)]
    int64_t data_stride = 0;        // bytes
    float* out = nullptr;           // [num_rows, dim]
    int64_t out_stride = 0;         // elements
    int64_t num_rows = 0;
    int64_t dim = 0;
    VectorRounding rounding = VectorRounding::kNone;
};

void decode_vectors(Context& context, const DecodeVectorsArgs& args);

// The same for many runs of vectors, of any sizes: long ones are split over the threads, short ones dealt out.
void decode_runs(Context& context, std::span<const DecodeVectorsArgs> runs);

}  // namespace deepinfer::cpu
