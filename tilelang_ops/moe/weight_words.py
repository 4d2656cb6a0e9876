"""Packed expert weights inside kernels: eight (FP4) or four (FP8) codes of a 32-bit word become matrix operands."""

from __future__ import annotations

from typing import Any

import tilelang.language as T

# The fields of a code inside a bf16 are its value times a fixed power of two: 2^-126 for e2m1 (exponent and mantissa in
# bits 8..6), 2^-120 for e4m3 (bits 10..4; its NaN codes, which weights do not have, become 480). Two exact products put
# it right: with that power, then with the scale. Two codes are done at a time, one of each half of the word.
PRELUDE = """
#include <cuda_fp16.h>
static __device__ __forceinline__ unsigned moe_mul_bf16x2(unsigned a, unsigned b) {
  unsigned d;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
static __device__ __forceinline__ unsigned moe_scale_bf16x2(int byte) {
  unsigned bits = byte == 0 ? 0x40u : byte == 255 ? 0x7FC0u : (unsigned)byte << 7;
  return bits | (bits << 16);
}
static __device__ __forceinline__ unsigned moe_e2m1_pair(unsigned w, unsigned scale) {
  unsigned bits = ((w << 6) & 0x01C001C0u) | ((w << 12) & 0x80008000u);
  return moe_mul_bf16x2(moe_mul_bf16x2(bits, 0x7E807E80u), scale);
}
static __device__ __forceinline__ unsigned moe_e4m3_pair(unsigned w, unsigned scale) {
  unsigned bits = ((w << 4) & 0x07F007F0u) | ((w << 8) & 0x80008000u);
  return moe_mul_bf16x2(moe_mul_bf16x2(bits, 0x7B807B80u), scale);
}
static __device__ __forceinline__ void moe_e2m1_to_bf16(int word, int byte, void* out) {
  unsigned w = (unsigned)word, scale = moe_scale_bf16x2(byte);
  unsigned p04 = moe_e2m1_pair(w, scale), p15 = moe_e2m1_pair(w >> 4, scale);
  unsigned p26 = moe_e2m1_pair(w >> 8, scale), p37 = moe_e2m1_pair(w >> 12, scale);
  uint4 d;
  d.x = __byte_perm(p04, p15, 0x5410);
  d.y = __byte_perm(p26, p37, 0x5410);
  d.z = __byte_perm(p04, p15, 0x7632);
  d.w = __byte_perm(p26, p37, 0x7632);
  *(uint4*)out = d;
}
static __device__ __forceinline__ void moe_e4m3_to_bf16(int low, int high, int byte, void* out) {
  unsigned scale = moe_scale_bf16x2(byte);
  unsigned p02 = moe_e4m3_pair((unsigned)low, scale), p13 = moe_e4m3_pair((unsigned)low >> 8, scale);
  unsigned q02 = moe_e4m3_pair((unsigned)high, scale), q13 = moe_e4m3_pair((unsigned)high >> 8, scale);
  uint4 d;
  d.x = __byte_perm(p02, p13, 0x5410);
  d.y = __byte_perm(p02, p13, 0x7632);
  d.z = __byte_perm(q02, q13, 0x5410);
  d.w = __byte_perm(q02, q13, 0x7632);
  *(uint4*)out = d;
}
static __device__ __forceinline__ unsigned moe_e2m1x4_to_e4m3(unsigned w) {
  unsigned sign = ((w & 0x8u) << 4) | ((w & 0x80u) << 8) | ((w & 0x800u) << 12) | ((w & 0x8000u) << 16);
  return __byte_perm(0x3C383000u, 0x4C484440u, w & 0x7777u) | sign;
}
static __device__ __forceinline__ void moe_e2m1_to_e4m3(int low, int high, void* out) {
  uint4 d;
  d.x = moe_e2m1x4_to_e4m3((unsigned)low & 0xFFFFu);
  d.y = moe_e2m1x4_to_e4m3((unsigned)low >> 16);
  d.z = moe_e2m1x4_to_e4m3((unsigned)high & 0xFFFFu);
  d.w = moe_e2m1x4_to_e4m3((unsigned)high >> 16);
  *(uint4*)out = d;
}
static __device__ __forceinline__ void moe_copy_words(int a, int b, int c, int d, void* out) {
  *(int4*)out = make_int4(a, b, c, d);
}
static __device__ __forceinline__ float2 moe_float2(unsigned half_bits) {
  return __half22float2(*(__half2*)&half_bits);
}
static __device__ __forceinline__ float moe_low(unsigned pair) { return __uint_as_float(pair << 16); }
static __device__ __forceinline__ float moe_high(unsigned pair) { return __uint_as_float(pair & 0xFFFF0000u); }
static __device__ __forceinline__ float moe_dot_e2m1(int word, const void* x, float sum) {
  uint4 v = *(const uint4*)x;
  unsigned w = (unsigned)word;
  float2 c04 = moe_float2(((w << 9) & 0x0E000E00u) | ((w << 12) & 0x80008000u));
  float2 c15 = moe_float2(((w << 5) & 0x0E000E00u) | ((w << 8) & 0x80008000u));
  float2 c26 = moe_float2(((w << 1) & 0x0E000E00u) | ((w << 4) & 0x80008000u));
  float2 c37 = moe_float2(((w >> 3) & 0x0E000E00u) | (w & 0x80008000u));
  sum = fmaf(c04.x, moe_low(v.x), sum);
  sum = fmaf(c15.x, moe_high(v.x), sum);
  sum = fmaf(c26.x, moe_low(v.y), sum);
  sum = fmaf(c37.x, moe_high(v.y), sum);
  sum = fmaf(c04.y, moe_low(v.z), sum);
  sum = fmaf(c15.y, moe_high(v.z), sum);
  sum = fmaf(c26.y, moe_low(v.w), sum);
  return fmaf(c37.y, moe_high(v.w), sum);
}
static __device__ __forceinline__ float moe_dot_e4m3x4(int word, unsigned x01, unsigned x23, float sum) {
  unsigned w = (unsigned)word;
  float2 c02 = moe_float2(((w << 7) & 0x3F803F80u) | ((w << 8) & 0x80008000u));
  float2 c13 = moe_float2(((w >> 1) & 0x3F803F80u) | (w & 0x80008000u));
  sum = fmaf(c02.x, moe_low(x01), sum);
  sum = fmaf(c13.x, moe_high(x01), sum);
  sum = fmaf(c02.y, moe_low(x23), sum);
  return fmaf(c13.y, moe_high(x23), sum);
}
static __device__ __forceinline__ float moe_dot_e4m3(int low, int high, const void* x, float sum) {
  uint4 v = *(const uint4*)x;
  return moe_dot_e4m3x4(high, v.z, v.w, moe_dot_e4m3x4(low, v.x, v.y, sum));
}
"""

# What the dot functions' float16 fields are short of: e2m1 2^14, e4m3 2^8.
DOT_SCALE = {False: 2.0**14, True: 2.0**8}


def codes_per_word(fp8: bool) -> int:
    """Weight codes in 32 bits."""
    return 4 if fp8 else 8


def words_per_group(fp8: bool) -> int:
    """32-bit words of the 32 columns that share a scale: one or two 16-byte loads."""
    return 32 // codes_per_word(fp8)


@T.macro
def decode_bf16(words: Any, first: Any, byte: Any, out: Any, fp8: bool) -> None:
    """out bf16 [8] = values of 8 codes: word `first` of `words` (FP4), or it and the next one (FP8); scale `byte`."""
    if fp8:
        T.call_extern("void", "moe_e4m3_to_bf16", words[first], words[first + 1], byte, T.address_of(out[0]))
    else:
        T.call_extern("void", "moe_e2m1_to_bf16", words[first], byte, T.address_of(out[0]))


@T.macro
def decode_e4m3(words: Any, first: Any, out: Any, fp8: bool) -> None:
    """out e4m3 [16] = 16 codes, unscaled: of two words (FP4; every e2m1 value is an e4m3 value) or of four (FP8)."""
    if fp8:
        T.call_extern(
            "void",
            "moe_copy_words",
            words[first],
            words[first + 1],
            words[first + 2],
            words[first + 3],
            T.address_of(out[0]),
        )
    else:
        T.call_extern("void", "moe_e2m1_to_e4m3", words[first], words[first + 1], T.address_of(out[0]))


def dot_words(words: Any, first: Any, values: Any, total: Any, fp8: bool) -> Any:
    """float32 total + 8 codes (from word `first` on) times bf16 values [8], the products times 1 / DOT_SCALE."""
    x = T.address_of(values[0])
    if fp8:
        return T.call_extern("float32", "moe_dot_e4m3", words[first], words[first + 1], x, total)
    return T.call_extern("float32", "moe_dot_e2m1", words[first], x, total)
