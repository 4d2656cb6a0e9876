// Where the rows of a step stand: in their sequences, in the workspace of window keys and among the compressed entries.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/model/model_config.hpp"
#include "cpu/model/step_input.hpp"

namespace deepinfer::cpu {

// The rows of one sequence. Its window keys stand in a workspace [history of seq 0 | rows of seq 0 | history of seq 1
// | ...]; the history is what windows may still see of the tokens before the first row.
struct SequenceRows {
    int64_t first_row = 0;  // among the packed rows
    int64_t num_rows = 0;
    int64_t start = 0;  // position of the first row
    int64_t state_slot = 0;
    int64_t window_start = 0;  // first position that windows may look at
    int64_t entry_start = 0;   // first position whose entries are to be written; those before are there already
    int64_t history = 0;       // tokens of the history
    int64_t first_key = 0;     // workspace place of its first token
    const int32_t* blocks = nullptr;

    int64_t end() const { return start + num_rows; }
    int64_t end_row() const { return first_row + num_rows; }
    int64_t position_of(int64_t row) const { return start + row - first_row; }
    int64_t key_of_row(int64_t row) const { return first_key + history + row - first_row; }
};

// Rows that complete a group of `ratio` tokens whose entry is not there yet, and what each row sees of the entries.
struct EntryRows {
    int64_t ratio = 0;
    std::vector<int64_t> num_visible;  // [T] complete groups at each row
    std::vector<int64_t> new_rows;     // [n] rows that complete a group
    std::vector<int64_t> new_starts;   // [n] position of the first token of that group
};

// The rows that some layers work on: all rows of the step, or those that YOCO keeps. Reused from step to step, so that
// nothing is allocated once its arrays are large enough.
struct StepRows {
    std::vector<SequenceRows> seqs;
    std::vector<int64_t> positions;     // [T]
    std::vector<int64_t> row_seq;       // [T] index into seqs
    std::vector<int64_t> step_rows;     // [T] number of the row in the step
    std::vector<int64_t> wanted;        // [L] rows whose final hidden state is wanted
    std::vector<int64_t> window_index;  // [T, window] workspace places, oldest first; -1: before what may be seen
    std::vector<EntryRows> entries;     // one per ratio of the model
    int64_t num_keys = 0;               // size of the workspace

    int64_t num_rows() const { return static_cast<int64_t>(positions.size()); }
    const EntryRows& entries_of(int64_t ratio) const;

    // All rows of a step.
    void assign(const ModelConfig& config, const StepInput& input);
    // What the consumer layers work on (spec/model.md 11): the rows p >= consumer_start of each sequence (compact), or
    // every row, with windows that begin at consumer_start (mask).
    void assign_consumers(const ModelConfig& config, const StepInput& input, const StepRows& all);

  private:
    void add_rows(const SequenceRows& seq, int64_t index, int64_t first_step_row);
    void finish(const ModelConfig& config);
};

// Whether any row of the step lacks a part of its window in the consumer layers, or is not kept at all.
bool cuts_windows(const ModelConfig& config, const StepInput& input);

}  // namespace deepinfer::cpu
