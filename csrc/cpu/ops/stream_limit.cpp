#include "cpu/ops/stream_limit.hpp"

#include <stdexcept>
#include <string>

namespace deepinfer::cpu {

void check_num_streams(int64_t num_streams) {
    if (num_streams >= 1 && num_streams <= kMaxStreams) return;
    throw std::invalid_argument("num_streams = " + std::to_string(num_streams) + ": the CPU kernels take 1 to " +
                                std::to_string(kMaxStreams) + "; use the reference backend");
}

}  // namespace deepinfer::cpu
