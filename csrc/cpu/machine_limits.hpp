// What the machine can do at best, as the measure of the ops' speed.
#pragma once

#include "cpu/context.hpp"

namespace deepinfer::cpu {

struct MachineLimits {
    double read_bytes_per_second;     // of 256 MiB, more than caches hold
    double multiply_adds_per_second;  // float32, fused, on registers; 0 without vector instructions
};

// Wall time of all threads of the context; the best of several measurements.
MachineLimits measure_limits(Context& context);

}  // namespace deepinfer::cpu
