// The most residual streams that the kernels work with.
#pragma once

#include <cstdint>

namespace deepinfer::cpu {

inline constexpr int64_t kMaxStreams = 16;

// Throws std::invalid_argument unless 1 <= num_streams <= kMaxStreams.
void check_num_streams(int64_t num_streams);

}  // namespace deepinfer::cpu
