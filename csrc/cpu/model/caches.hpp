// The engine's caches, as the program reads and writes them.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/model/model_config.hpp"
#include "cpu/ops/entry_view.hpp"
#include "cpu/ops/vector_rounding.hpp"

namespace deepinfer::cpu {

// How vectors of one cache are rounded and stored; see deepinfer/core/cache_spec.py.
struct VectorFormat {
    int64_t dim = 0;
    VectorRounding rounding = VectorRounding::kNone;
    bool is_packed = false;  // the quantizer's bytes; false: the (rounded) values as float32

    VectorRounding stored_as() const { return is_packed ? rounding : VectorRounding::kNone; }
    int64_t num_bytes() const { return packed_bytes(stored_as(), dim); }
};

// Vectors in units: blocks of a paged cache or state slots of a ring.
struct VectorCache {
    uint8_t* data = nullptr;  // [num_units, num_entries, format.num_bytes()]
    int64_t num_units = 0;
    int64_t num_entries = 0;  // of a unit
    VectorFormat format;

    uint8_t* at(int64_t unit, int64_t entry) const { return data + (unit * num_entries + entry) * format.num_bytes(); }
    // One sequence's entries of a paged cache.
    EntryView view(const int32_t* block_table) const { return {data, block_table, num_entries, format.num_bytes()}; }
};

// Rings of float32 (score, value) pairs of unfinished groups.
struct StateCache {
    float* data = nullptr;  // [num_slots, num_entries, 2, dim]
    int64_t num_slots = 0;
    int64_t num_entries = 0;
    int64_t dim = 0;

    float* at(int64_t slot, int64_t entry) const { return data + (slot * num_entries + entry) * 2 * dim; }
};

// By layer; a layer that has none has an empty one. Windows of draft stages stand behind those of the layers.
struct Caches {
    std::vector<VectorCache> main;
    std::vector<VectorCache> index;
    std::vector<VectorCache> window;
    std::vector<StateCache> compressor;
};

// Throws std::invalid_argument that names a cache which a layer needs and does not have, or whose vectors have another
// size.
void check_caches(const ModelConfig& config, const Caches& caches, bool with_drafts);

}  // namespace deepinfer::cpu
