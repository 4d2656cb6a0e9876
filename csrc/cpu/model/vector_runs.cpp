#include "cpu/model/vector_runs.hpp"

#include <algorithm>

namespace deepinfer::cpu {

VectorRuns::VectorRuns(StepContext& step, const VectorFormat& format, int64_t num_sequences)
    : format_(format), runs_(step.workspace.take<DecodeVectorsArgs>(3 * num_sequences)) {}

void VectorRuns::add(const uint8_t* data, int64_t count, float* out) {
    if (count == 0) return;
    runs_[num_runs_++] = {.data = data,
                          .data_stride = format_.num_bytes(),
                          .out = out,
                          .out_stride = format_.dim,
                          .num_rows = count,
                          .dim = format_.dim,
                          .rounding = format_.stored_as()};
}

void VectorRuns::add_ring(const VectorCache& ring, RingRange range, float* out) {
    for (int64_t done = 0; done < range.count;) {  // at most two runs: up to the ring's end and on from its beginning
        const int64_t entry = (range.begin + done) % ring.num_entries;
        const int64_t count = std::min(range.count - done, ring.num_entries - entry);
        add(ring.at(range.state_slot, entry), count, out + done * format_.dim);
        done += count;
    }
}

void VectorRuns::decode(StepContext& step) const {
    decode_runs(step.cpu, {runs_, static_cast<size_t>(num_runs_)});
}

}  // namespace deepinfer::cpu
