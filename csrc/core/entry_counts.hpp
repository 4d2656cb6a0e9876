// How many compressed entries the rows of a sequence see, attend to and score: sums in closed form.
#pragma once

#include <cstdint>

#include "core/model_shape.hpp"

namespace deepinfer {

// Sums over rows at positions begin .. end-1 of one sequence, for the layers of one compression ratio. A row at
// position p sees v = floor((p + 1) / ratio) entries and attends to min(v, index_topk) of them. It has to choose only
// if v > index_topk; then an index source scores all v, or those in the candidate blocks: all while there are no more
// blocks than candidates, else candidates - 1 whole blocks and the newest one, as far as it is filled.
struct EntryCounts {
    int64_t picks = 0;          // entries attended to, over all rows
    int64_t choosing_rows = 0;  // rows that have to choose
    int64_t scored = 0;         // entries scored by an index source without candidates
    int64_t scored_blocks = 0;  // the same with candidates
    int64_t picks_read = 0;     // distinct entries of these kinds, at most
    int64_t scored_read = 0;
    int64_t scored_blocks_read = 0;

    // Adds the rows of one sequence.
    void add(const ModelShape& shape, int64_t ratio, int64_t begin, int64_t end);
    // Adds a single row that sees so many entries.
    void add_row(const ModelShape& shape, int64_t visible);
    EntryCounts& operator+=(const EntryCounts& other);
};

// sum of min(p + 1 - first, window), at least 0, over p = begin .. end-1: window keys, none before `first`.
int64_t window_pairs(int64_t window, int64_t first, int64_t begin, int64_t end);

}  // namespace deepinfer
