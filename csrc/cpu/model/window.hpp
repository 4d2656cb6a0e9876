// Keys of the sliding window: a workspace of what the step's rows may see, and the rings that keep it for later steps.
#pragma once

#include <cstdint>

#include "cpu/model/caches.hpp"
#include "cpu/model/step_context.hpp"

namespace deepinfer::cpu {

// Encodes vectors [n, dim] as a cache stores them; `out` has format.num_bytes() for each.
void encode(StepContext& step, const VectorFormat& format, const float* x, int64_t num_vectors, uint8_t* out);

// First row of a sequence that a ring of num_entries keeps: its last ones, and none that windows may not look at.
int64_t first_kept_row(const SequenceRows& seq, int64_t num_entries);

// Workspace [num_keys, d] of a layer's key=value vectors, rows [T, d] being new; all through the cache's rounding. The
// ring is read before the new rows are stored in it.
void fill_window(StepContext& step, const VectorCache& ring, const float* rows, float* workspace);

// Stores the encoded vectors of the rows that the ring keeps, first_kept_row() and on.
void store_in_ring(const VectorCache& ring, const SequenceRows& seq, const uint8_t* kept);

}  // namespace deepinfer::cpu
