"""Packed key=value words as float16 matrix operands: the CUDA functions that producers of keys call."""

from __future__ import annotations

# e2m1 and e4m3 values times their scales are exact in float16: 2 + 4 significant bits within 2^-10 .. 2688, and 4 bits
# times a power of two (of magnitudes below 65504; what is under 2^-24 becomes 0). A scale that is not finite, as those
# of NaN groups, makes the group not finite. An absent vector has zero words and a zero scale.
# FP4 keys are decoded to 2^-FOLD of their values, still exactly: the bits of an e2m1 code, put in place, are those of a
# float16 number that is 2^-14 of its value, and its scale, at most 448, makes up for the 2^7 that float16 has left.
FOLD = 7
PRELUDE = """
#include <cuda_fp16.h>
#include <cuda_fp8.h>
static __device__ __forceinline__ unsigned attn_mul(unsigned a, unsigned b) {
  __half2 d = __hmul2(*(__half2*)&a, *(__half2*)&b);
  return *(unsigned*)&d;
}
static __device__ __forceinline__ float attn_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
static __device__ __forceinline__ long long attn_address(const void* p) { return (long long)p; }
static __device__ __forceinline__ void attn_load_codes(long long vector, int offset, void* out) {
  int4 v = make_int4(0, 0, 0, 0);
  if (vector) v = __ldg((const int4*)(vector + offset));
  *(int4*)out = v;
}
static __device__ __forceinline__ int attn_load_scales(long long vector, int offset) {
  return vector ? (int)__ldg((const unsigned short*)(vector + offset)) : 0;
}
static __device__ __forceinline__ unsigned attn_e4m3_pair(unsigned codes) {
  __half2_raw d = __nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t)codes, __NV_E4M3);
  return *(unsigned*)&d;
}
static __device__ __forceinline__ unsigned attn_e8m0_scale(int byte) {
  __half s = __float2half_rn(__int_as_float(byte << 23));
  __half2 d = __half2half2(s);
  return *(unsigned*)&d;
}
static __device__ __forceinline__ unsigned attn_low_half(unsigned pair) { return __byte_perm(pair, pair, 0x1010); }
static __device__ __forceinline__ unsigned attn_high_half(unsigned pair) { return __byte_perm(pair, pair, 0x3232); }
static __device__ __forceinline__ void attn_e4m3_to_half(int a, int b, unsigned scale, void* base, int offset) {
  uint4 d;
  d.x = attn_mul(attn_e4m3_pair((unsigned)a & 0xFFFFu), scale);
  d.y = attn_mul(attn_e4m3_pair((unsigned)a >> 16), scale);
  d.z = attn_mul(attn_e4m3_pair((unsigned)b & 0xFFFFu), scale);
  d.w = attn_mul(attn_e4m3_pair((unsigned)b >> 16), scale);
  *(uint4*)((char*)base + offset) = d;
}
static __device__ __forceinline__ unsigned attn_bf16_to_half(unsigned pair) {
  __half2 d = __floats2half2_rn(__uint_as_float(pair << 16), __uint_as_float(pair & 0xFFFF0000u));
  return *(unsigned*)&d;
}
static __device__ __forceinline__ void attn_query_to_half(void* base, int offset) {
  uint4* p = (uint4*)((char*)base + offset);
  uint4 v = *p;
  v.x = attn_bf16_to_half(v.x);
  v.y = attn_bf16_to_half(v.y);
  v.z = attn_bf16_to_half(v.z);
  v.w = attn_bf16_to_half(v.w);
  *p = v;
}
static __device__ __forceinline__ unsigned attn_e4m3_folded(unsigned codes) {
  return attn_mul(attn_e4m3_pair(codes), 0x58005800u);
}
static __device__ __forceinline__ void attn_e2m1_folded(int word, unsigned scale, void* base, int offset) {
  unsigned w = (unsigned)word, x = w << 4, v = w << 1, u = w >> 3;
  unsigned even = (x & 0x80808080u) | (v & 0x7F7F7F7Fu), odd = (w & 0x80808080u) | (u & 0x7F7F7F7Fu);
  uint4 d;
  d.x = attn_mul(__byte_perm(even, odd, 0x4400) & 0x8E008E00u, scale);
  d.y = attn_mul(__byte_perm(even, odd, 0x5511) & 0x8E008E00u, scale);
  d.z = attn_mul(__byte_perm(even, odd, 0x6622) & 0x8E008E00u, scale);
  d.w = attn_mul(__byte_perm(even, odd, 0x7733) & 0x8E008E00u, scale);
  *(uint4*)((char*)base + offset) = d;
}
static __device__ __forceinline__ int attn_quotient(int entry, int unit, int shift) {
  return shift >= 0 ? entry >> shift : entry / unit;
}
static __device__ __forceinline__ long long attn_load_long(const void* base, long long place) {
  long long v;
  asm volatile("ld.global.nc.s64 %0, [%1];" : "=l"(v) : "l"((const long long*)base + place));
  return v;
}
"""
