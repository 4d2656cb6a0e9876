// The one vector type of the CPU kernels: sixteen float32 lanes, whatever the instruction set.
//
// A kernel is written once, against F32x16, and compiled once for each instruction set (kernels_<isa>.cpp). All three
// make the same operations on the same lanes in the same order (fused multiply-adds included), so results are equal
// bit for bit on every CPU. What the functions mean:
// * load(p, n), store(p, n): the first n (0 to 16) lanes; lanes behind them load as zero and are not stored.
// * load_bf16: 16 bf16 values. load_e4m3: 16 e4m3 codes, each as its value times 2^-8 (multiply the scale by 256; NaN
//   codes are not known). load_e2m1: 16 bytes of two e2m1 codes, the low nibbles to `even`, the high ones to `odd`.
//   With `values` load_e2m1 gives those instead: sixteen, one for each code, the first on a 64-byte boundary. Codes
//   behind the first n are 0 there and load as values[0].
// * split_pairs(a, b): lanes 0, 2, 4 ... of a and then of b to `even`, the others to `odd`. join_pairs undoes it.
// * max(a, b), min(a, b): b where either is NaN. Comparisons are false for NaN. round: nearest integer, ties to even.
// * to_int rounds likewise; what does not fit gives INT32_MIN. shift_right keeps the sign.
// * sum, max_lane: over the lanes, as a halving tree (lane i with lane i + 8, then + 4, + 2, + 1). sum4: the sums
//   of four vectors, in order.
// * swap_lanes<N>: lane i gets lane i ^ N, N = 1, 2, 4 or 8. pair_sums<N>(a, b): lane i is lane i plus lane i ^ N, of a
//   where i & N is 0 and of b elsewhere; four rounds of it (8, 4, 2, 1) make the sum() of sixteen vectors.
// * Lanes: one register of the instruction set, Lanes::kSize lanes; F32x16::join makes a vector of 16 / kSize of them.
//   For loops that need every register.
//
// The including file defines DEEPINFER_CPU_AVX512, DEEPINFER_CPU_AVX2 or DEEPINFER_CPU_SCALAR and sets the compiler's
// target first. Kernels live in the namespace DEEPINFER_CPU_ISA, one for each instruction set, and use no templates or
// inline functions of the standard library: those would be compiled for this target and might be linked into code that
// runs on any CPU.
#pragma once

#if defined(DEEPINFER_CPU_AVX512_BF16)
#define DEEPINFER_CPU_ISA avx512bf16
#include "cpu/simd/f32x16_avx512.hpp"
#elif defined(DEEPINFER_CPU_AVX512)
#define DEEPINFER_CPU_ISA avx512
#include "cpu/simd/f32x16_avx512.hpp"
#elif defined(DEEPINFER_CPU_AVX2)
#include "cpu/simd/f32x16_avx2.hpp"
#define DEEPINFER_CPU_ISA avx2
#elif defined(DEEPINFER_CPU_SCALAR)
#include "cpu/simd/f32x16_scalar.hpp"
#define DEEPINFER_CPU_ISA scalar
#else
#error "choose an instruction set first"
#endif
