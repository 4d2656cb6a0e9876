// Rows of an Engram table.
#pragma once

#include <cstdint>

namespace deepinfer::cpu {

class Context;

// Values (e4m3 code times 2^(scale - 127)) of the table rows asked for, one behind the other. Only those rows are read,
// so the table may be memory-mapped.
struct EngramLookupArgs {
    const int64_t* rows = nullptr;    // [num_rows]; -1 gives zeros
    const uint8_t* codes = nullptr;   // [V, dim] e4m3
    const uint8_t* scales = nullptr;  // [V, ceil(dim / 32)] E8M0
    float* out = nullptr;             // [num_rows, dim]
    int64_t num_rows = 0;
    int64_t dim = 0;
};

void engram_lookup(Context& context, const EngramLookupArgs& args);

}  // namespace deepinfer::cpu
