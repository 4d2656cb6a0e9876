// Runs of stored vectors of one format, collected over the sequences of a step and decoded at once.
#pragma once

#include <cstdint>

#include "cpu/model/caches.hpp"
#include "cpu/model/step_context.hpp"
#include "cpu/ops/decode_vectors.hpp"

namespace deepinfer::cpu {

// Positions [begin, begin + count) of a slot's ring.
struct RingRange {
    int64_t state_slot = 0;
    int64_t begin = 0;
    int64_t count = 0;
};

// Takes its memory from the step's workspace, for a ring range and a run of other vectors a sequence.
class VectorRuns {
  public:
    VectorRuns(StepContext& step, const VectorFormat& format, int64_t num_sequences);

    // Encoded vectors, one behind the other, to out [count, dim].
    void add(const uint8_t* data, int64_t count, float* out);
    void add_ring(const VectorCache& ring, RingRange range, float* out);
    void decode(StepContext& step) const;

  private:
    const VectorFormat& format_;
    DecodeVectorsArgs* runs_;
    int64_t num_runs_ = 0;
};

}  // namespace deepinfer::cpu
