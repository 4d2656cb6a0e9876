#include "cpu/isa.hpp"

#include <stdexcept>
#include <string>

#include "cpu/kernel_table.hpp"

namespace deepinfer::cpu {

namespace {

constexpr Isa kAll[] = {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16};

}  // namespace

std::string_view isa_name(Isa isa) {
    if (isa == Isa::kAvx512Bf16) return "avx512_bf16";
    if (isa == Isa::kAvx512) return "avx512";
    return isa == Isa::kAvx2 ? "avx2" : "scalar";
}

bool is_supported(Isa isa) {
    const bool has_avx2 =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (isa == Isa::kAvx512) return has_avx2 && has_avx512;
    if (isa == Isa::kAvx512Bf16)
        return has_avx2 && has_avx512 && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vbmi") &&
               avx512bf16::adds_in_order();
    return isa == Isa::kScalar || has_avx2;
}

Isa best_isa() {
    if (is_supported(Isa::kAvx512Bf16)) return Isa::kAvx512Bf16;
    if (is_supported(Isa::kAvx512)) return Isa::kAvx512;
    return is_supported(Isa::kAvx2) ? Isa::kAvx2 : Isa::kScalar;
}

Isa parse_isa(std::string_view name) {
    if (name == "auto") return best_isa();
    for (Isa isa : kAll) {
        if (name != isa_name(isa)) continue;
        if (!is_supported(isa)) throw std::invalid_argument("this CPU cannot run " + std::string(name) + " kernels");
        return isa;
    }
    throw std::invalid_argument("instruction set '" + std::string(name) +
                                "': expected auto, scalar, avx2, avx512 or avx512_bf16");
}

}  // namespace deepinfer::cpu
