// The instruction sets that this machine can run.
#pragma once

#include <vector>

#include "cpu/isa.hpp"

namespace deepinfer::cpu {

inline std::vector<Isa> supported_isas() {
    std::vector<Isa> isas;
    for (Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16})
        if (is_supported(isa)) isas.push_back(isa);
    return isas;
}

}  // namespace deepinfer::cpu
