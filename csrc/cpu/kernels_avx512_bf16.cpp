// The kernels compiled for avx512 with bf16 dot products: products of bf16 rows; all others are those of avx512.
#include <cmath>
#include <cstdint>
#include <cstring>

#define DEEPINFER_CPU_AVX512_BF16
#include "cpu/kernel_table.hpp"
#include "cpu/kernels/multiply_pairs.hpp"
#include "cpu/kernels/pack_rows.hpp"

namespace deepinfer::cpu::avx512bf16 {

namespace {

void multiply_rows(const RowProduct& product) {
    if (product.pairs == nullptr || !multiply_pairs(product)) avx512::kKernels.multiply_rows(product);
}

KernelTable make_kernels() {
    KernelTable table = avx512::kKernels;
    table.multiply_rows = multiply_rows;
    table.pack_rows = pack_rows;
    return table;
}

}  // namespace

const KernelTable& kernels() {
    static const KernelTable table = make_kernels();
    return table;
}

// Whether a dot product is two fused multiply-adds in order here, as kernels/multiply_pairs.hpp takes it to be: here
// the product of the odd words is lost in rounding, or would be if the other one did not come later.
bool adds_in_order() {
    const __m512i weights = _mm512_set1_epi32(static_cast<int>(0x3F803F80u));
    const auto sum = [&](uint32_t pair) {
        F32x16 out{_mm512_set1_ps(0x1p24f)};
        add_dots(out, weights, _mm512_set1_epi32(static_cast<int>(pair)));
        return _mm512_cvtss_f32(out.v);
    };
    // 2^24 + 1 rounds to 2^24, and again; 2^24 + 3 rounds to 2^24 + 4, minus 1 to 2^24 + 3, to even + 4 or + 2.
    return sum(0x3F803F80u) == 0x1p24f && sum(0x3F804000u) == 0x1p24f + 2.0f;
}

}  // namespace deepinfer::cpu::avx512bf16
