// All kernels, for the instruction set that the including file has chosen, and their table.
#pragma once

#include "cpu/kernel_table.hpp"
#include "cpu/kernels/rms_norm.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

const KernelTable kKernels = {
    .rms_norm = rms_norm,
};

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
