"""Packed expert weights as operands of mma.sync and register operands of wgmma: device code in CUDA.

The order of K inside 32 columns is free as long as both operands agree. Here a lane's first operand is the word of
eight codes as it lies in memory: half-words hold codes i and i + 4, so one mask serves two codes at a time, and a block
of eight activation columns is read in the order 0 4 1 5 2 6 3 7 (`PAIRED`).
"""

from __future__ import annotations

PAIRED = (0, 4, 1, 5, 2, 6, 3, 7)

# Weights come out short of 2^RESTORE: one bf16 factor then takes a code's fields (a value times 2^-126 for e2m1, 2^-120
# for e4m3) to its scaled value for all scales from 2^-92 to 2^33. Larger ones and the byte 255 give infinities and NaN.
RESTORE = 32
_FACTOR = {False: 126 - RESTORE, True: 120 - RESTORE}  # by format (True: FP8), added to the scale byte

SOURCE = """
#include <cuda_bf16.h>
static __device__ __forceinline__ void moe_load16(void* out, const void* from) {
  uint4 d;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(d.x), "=r"(d.y), "=r"(d.z), "=r"(d.w) : "l"(from));
  *(uint4*)out = d;
}
static __device__ __forceinline__ int moe_load_byte(const void* from) { return __ldg((const unsigned char*)from); }
// N bytes to shared memory, zeros unless valid.
template <int N>
static __device__ __forceinline__ void moe_copy_async(void* to, const void* from, bool valid) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(to);
  const int size = valid ? N : 0;
  if constexpr (N == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(size) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(at), "l"(from), "n"(N), "r"(size) : "memory");
}
static __device__ __forceinline__ void moe_copy_async16(void* to, const void* from) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(to);
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
}
static __device__ __forceinline__ int moe_load_word(const void* from) { return *(const int*)from; }
static __device__ __forceinline__ float moe_load_float(const void* from) { return *(const float*)from; }
static __device__ __forceinline__ void moe_store_word(void* out, int word) { *(int*)out = word; }
static __device__ __forceinline__ void moe_store_words(void* out, int a, int b, int c, int d) {
  *(int4*)out = make_int4(a, b, c, d);
}
static __device__ __forceinline__ void moe_store_bf16(void* out, float x) {
  *(__nv_bfloat16*)out = __float2bfloat16_rn(x);
}
static __device__ __forceinline__ void moe_store_pair(void* out, float low, float high) {
  *(__nv_bfloat162*)out = __floats2bfloat162_rn(low, high);
}
static __device__ __forceinline__ void moe_copy16(void* out, const void* from) { *(uint4*)out = *(const uint4*)from; }
// bf16 2^(byte + shift - 127) twice; infinity beyond the range.
static __device__ __forceinline__ int moe_factor(int byte, int shift) {
  return min(byte, 255 - shift) * 0x00800080 + shift * 0x00800080;
}
static __device__ __forceinline__ unsigned moe_scaled_pair(unsigned fields, unsigned factor) {
  unsigned d;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(fields), "r"(factor));
  return d;
}
// Codes 0 4 | 1 5 | 2 6 | 3 7 of a word of e2m1. A nibble times 2^12 + 2^6 is its sign at bit 15 and its magnitude at
// bits 8..6; copies that fall elsewhere are masked.
static __device__ __forceinline__ void moe_e2m1_pairs(unsigned w, unsigned factor, unsigned* d) {
  unsigned v = w >> 8;
  d[0] = moe_scaled_pair(((w & 0x000F000Fu) * 0x1040u) & 0x81C081C0u, factor);
  d[1] = moe_scaled_pair(((w & 0x00F000F0u) * 0x0104u) & 0x81C081C0u, factor);
  d[2] = moe_scaled_pair(((v & 0x000F000Fu) * 0x1040u) & 0x81C081C0u, factor);
  d[3] = moe_scaled_pair(((v & 0x00F000F0u) * 0x0104u) & 0x81C081C0u, factor);
}
// The same of eight e4m3 codes in two words.
static __device__ __forceinline__ unsigned moe_e4m3_fields(unsigned low, unsigned high, unsigned selector) {
  unsigned p = __byte_perm(low, high, selector);
  return (p & 0x80008000u) | ((p >> 4) & 0x07F007F0u);
}
static __device__ __forceinline__ void moe_e4m3_pairs(unsigned low, unsigned high, unsigned factor, unsigned* d) {
  d[0] = moe_scaled_pair(moe_e4m3_fields(low, high, 0x4400u), factor);
  d[1] = moe_scaled_pair(moe_e4m3_fields(low, high, 0x5511u), factor);
  d[2] = moe_scaled_pair(moe_e4m3_fields(low, high, 0x6622u), factor);
  d[3] = moe_scaled_pair(moe_e4m3_fields(low, high, 0x7733u), factor);
}
static __device__ __forceinline__ void moe_mma(float* acc, unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                                               unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
static __device__ __forceinline__ void moe_mma_pairs(float* acc, const unsigned* p, const unsigned* q, const void* x) {
  uint4 b = *(const uint4*)x;
  moe_mma(acc, p[0], q[0], p[1], q[1], b.x, b.y);
  moe_mma(acc, p[2], q[2], p[3], q[3], b.z, b.w);
}
static __device__ __forceinline__ void moe_mma_e2m1(void* acc, int low_row, int high_row, int low_factor,
                                                    int high_factor, const void* x) {
  unsigned p[4], q[4];
  moe_e2m1_pairs((unsigned)low_row, (unsigned)low_factor, p);
  moe_e2m1_pairs((unsigned)high_row, (unsigned)high_factor, q);
  moe_mma_pairs((float*)acc, p, q, x);
}
static __device__ __forceinline__ void moe_mma_e4m3(void* acc, const void* low_row, const void* high_row,
                                                    int low_factor, int high_factor, const void* x) {
  unsigned p[4], q[4];
  const uint2 low = *(const uint2*)low_row, high = *(const uint2*)high_row;
  moe_e4m3_pairs(low.x, low.y, (unsigned)low_factor, p);
  moe_e4m3_pairs(high.x, high.y, (unsigned)high_factor, q);
  moe_mma_pairs((float*)acc, p, q, x);
}
// The thread's index, anew: what is computed from it is not kept in registers over the products before.
static __device__ __forceinline__ int moe_thread() {
  int index;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
  return index;
}
// Zeros that the compiler cannot see through: it would move them between the products, and wait for each of those.
template <int N>
static __device__ __forceinline__ void moe_clear(void* sums) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("mov.f32 %0, 0f00000000;" : "=f"(((float*)sums)[i]));
}
// Register operands of two steps of wgmma: low row, high row, twice, of codes 0 4 | 1 5, then of 2 6 | 3 7.
static __device__ __forceinline__ void moe_interleave(const unsigned* p, const unsigned* q, unsigned* a) {
  a[0] = p[0], a[1] = q[0], a[2] = p[1], a[3] = q[1], a[4] = p[2], a[5] = q[2], a[6] = p[3], a[7] = q[3];
}
static __device__ __forceinline__ void moe_operand_e2m1(int low_row, int high_row, int low_factor, int high_factor,
                                                        void* a) {
  unsigned p[4], q[4];
  moe_e2m1_pairs((unsigned)low_row, (unsigned)low_factor, p);
  moe_e2m1_pairs((unsigned)high_row, (unsigned)high_factor, q);
  moe_interleave(p, q, (unsigned*)a);
}
static __device__ __forceinline__ void moe_operand_e4m3(const void* low_row, const void* high_row, int low_factor,
                                                        int high_factor, void* a) {
  unsigned p[4], q[4];
  const uint2 low = *(const uint2*)low_row, high = *(const uint2*)high_row;
  moe_e4m3_pairs(low.x, low.y, (unsigned)low_factor, p);
  moe_e4m3_pairs(high.x, high.y, (unsigned)high_factor, q);
  moe_interleave(p, q, (unsigned*)a);
}
"""


def factor_shift(fp8: bool) -> int:
    """What `moe_factor` adds to a scale byte."""
    return _FACTOR[fp8]
