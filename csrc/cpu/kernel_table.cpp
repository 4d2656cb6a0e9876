#include "cpu/kernel_table.hpp"

namespace deepinfer::cpu {

const KernelTable& kernel_table(Isa isa) {
    if (isa == Isa::kAvx512Bf16) return avx512bf16::kernels();
    if (isa == Isa::kAvx512) return avx512::kKernels;
    return isa == Isa::kAvx2 ? avx2::kKernels : scalar::kKernels;
}

}  // namespace deepinfer::cpu
