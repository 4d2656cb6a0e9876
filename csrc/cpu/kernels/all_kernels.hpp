// All kernels, for the instruction set that the including file has chosen, and their table.
#pragma once

#include "cpu/kernel_table.hpp"
#include "cpu/kernels/combine_experts.hpp"
#include "cpu/kernels/gated_hidden.hpp"
#include "cpu/kernels/multiply_rows.hpp"
#include "cpu/kernels/prepare_rows.hpp"
#include "cpu/kernels/rms_norm.hpp"
#include "cpu/kernels/vectors.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

const KernelTable kKernels = {
    .combine_experts = combine_experts,
    .decode_vectors = decode_vectors,
    .encode_vectors = encode_vectors,
    .gated_hidden = gated_hidden,
    .multiply_rows = multiply_rows,
    .prepare_rows = prepare_rows,
    .rms_norm = rms_norm,
    .round_vectors = round_vectors,
};

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
