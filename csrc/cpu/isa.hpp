// Instruction sets that the CPU kernels are compiled for.
#pragma once

#include <string_view>

namespace deepinfer::cpu {

// kAvx512Bf16 is kAvx512 with dot products of bf16 pairs (and look-ups of 128 bytes).
enum class Isa { kScalar, kAvx2, kAvx512, kAvx512Bf16 };

// "scalar", "avx2", "avx512" or "avx512_bf16".
std::string_view isa_name(Isa isa);
// Whether this machine can run it.
bool is_supported(Isa isa);
// The widest one this machine can run.
Isa best_isa();
// "auto" is the best one. Throws std::invalid_argument for another name or one that this machine cannot run.
Isa parse_isa(std::string_view name);

}  // namespace deepinfer::cpu
