// The kernels of one instruction set, as function pointers. Each computes a range of its op's items; ops/ splits them.
#pragma once

#include "cpu/isa.hpp"
#include "cpu/ops/rms_norm.hpp"
#include "cpu/range.hpp"

namespace deepinfer::cpu {

struct KernelTable {
    void (*rms_norm)(const RmsNormArgs&, Range rows);
};

// Only to be called when is_supported(isa).
const KernelTable& kernel_table(Isa isa);

namespace scalar {
extern const KernelTable kKernels;
}
namespace avx2 {
extern const KernelTable kKernels;
}
namespace avx512 {
extern const KernelTable kKernels;
}

}  // namespace deepinfer::cpu
