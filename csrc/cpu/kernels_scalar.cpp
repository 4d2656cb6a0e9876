// The kernels compiled for scalar.
#include <cmath>
#include <cstdint>
#include <cstring>

#define DEEPINFER_CPU_SCALAR
#include "cpu/kernels/all_kernels.hpp"
