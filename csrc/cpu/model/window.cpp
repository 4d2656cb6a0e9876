#include "cpu/model/window.hpp"

#include <algorithm>
#include <cstring>

#include "cpu/model/vector_runs.hpp"
#include "cpu/ops/encode_vectors.hpp"
#include "cpu/ops/round_vectors.hpp"

namespace deepinfer::cpu {

void encode(StepContext& step, const VectorFormat& format, const float* x, int64_t num_vectors, uint8_t* out) {
    if (!format.is_packed) {
        round_vectors(step.cpu, {.x = x,
                                 .x_stride = format.dim,
                                 .out = reinterpret_cast<float*>(out),
                                 .out_stride = format.dim,
                                 .num_rows = num_vectors,
                                 .dim = format.dim,
                                 .rounding = format.rounding});
        return;
    }
    encode_vectors(step.cpu, {.x = x,
                              .x_stride = format.dim,
                              .out = out,
                              .out_stride = format.num_bytes(),
                              .num_rows = num_vectors,
                              .dim = format.dim,
                              .rounding = format.rounding});
}

int64_t first_kept_row(const SequenceRows& seq, int64_t num_entries) {
    const int64_t oldest = std::max({seq.end() - num_entries, seq.window_start, seq.start});
    return seq.first_row + std::min(oldest - seq.start, seq.num_rows);
}

void store_in_ring(const VectorCache& ring, const SequenceRows& seq, const uint8_t* kept) {
    const int64_t bytes = ring.format.num_bytes();
    for (int64_t row = first_kept_row(seq, ring.num_entries); row < seq.end_row(); ++row, kept += bytes)
        std::memcpy(ring.at(seq.state_slot, seq.position_of(row) % ring.num_entries), kept, static_cast<size_t>(bytes));
}

void fill_window(StepContext& step, const VectorCache& ring, const float* rows, float* workspace) {
    const Workspace::Scope scope(step.workspace);
    const int64_t dim = ring.format.dim, bytes = ring.format.num_bytes();
    auto* encoded = step.workspace.take<uint8_t>(step.num_rows() * bytes);
    encode(step, ring.format, rows, step.num_rows(), encoded);
    VectorRuns runs(step, ring.format, std::ssize(step.rows->seqs));
    for (const SequenceRows& seq : step.rows->seqs) {
        float* keys = workspace + seq.first_key * dim;
        runs.add_ring(ring, {seq.state_slot, seq.start - seq.history, seq.history}, keys);
        runs.add(encoded + seq.first_row * bytes, seq.num_rows, keys + seq.history * dim);
    }
    runs.decode(step);
    for (const SequenceRows& seq : step.rows->seqs)
        store_in_ring(ring, seq, encoded + first_kept_row(seq, ring.num_entries) * bytes);
}

}  // namespace deepinfer::cpu
