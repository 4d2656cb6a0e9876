// The kernels compiled for avx2.
#include <cmath>
#include <cstdint>
#include <cstring>

#define DEEPINFER_CPU_AVX2
#include "cpu/kernels/all_kernels.hpp"
