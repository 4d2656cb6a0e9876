// The kernels of one instruction set, as function pointers. Each computes a range of its op's items; ops/ splits them.
#pragma once

#include "cpu/isa.hpp"
#include "cpu/ops/combine_experts.hpp"
#include "cpu/ops/decode_vectors.hpp"
#include "cpu/ops/encode_vectors.hpp"
#include "cpu/ops/gated_hidden.hpp"
#include "cpu/ops/prepare_rows.hpp"
#include "cpu/ops/rms_norm.hpp"
#include "cpu/ops/round_vectors.hpp"
#include "cpu/ops/row_product.hpp"
#include "cpu/range.hpp"

namespace deepinfer::cpu {

struct KernelTable {
    void (*combine_experts)(const CombineExpertsArgs&, Range rows);
    void (*decode_vectors)(const DecodeVectorsArgs&, Range rows);
    void (*encode_vectors)(const EncodeVectorsArgs&, Range rows);
    void (*gated_hidden)(const GatedHiddenArgs&);
    void (*multiply_rows)(const RowProduct&);
    void (*prepare_rows)(const PrepareRowsArgs&, Range rows);
    void (*rms_norm)(const RmsNormArgs&, Range rows);
    void (*round_vectors)(const RoundVectorsArgs&, Range rows);
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
