// The kernels compiled for avx512.
#include <cmath>
#include <cstdint>
#include <cstring>

#define DEEPINFER_CPU_AVX512
#include "cpu/kernels/all_kernels.hpp"
