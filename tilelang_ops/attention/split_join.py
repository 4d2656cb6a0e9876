"""Joins the thread blocks of a cluster that share a row's keys: the CUDA functions for it."""

from __future__ import annotations

# A block leaves its output, float32 [64, dim] over the tiles it has no more use for, with 32-byte groups of columns
# swizzled by row. Then each reads its slice of the columns from all blocks, in the order of the blocks.
JOIN_PRELUDE = """
static __device__ __forceinline__ unsigned attn_remote(const void* p, int rank) {
  unsigned address = (unsigned)__cvta_generic_to_shared(p), result;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(result) : "r"(address), "r"(rank));
  return result;
}
static __device__ __forceinline__ float attn_read(unsigned address) {
  float x;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x) : "r"(address) : "memory");
  return x;
}
static __device__ __forceinline__ float4 attn_read4(unsigned address) {
  float4 v;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(address) : "memory");
  return v;
}
static __device__ __forceinline__ void attn_keep(const float* output, void* kept, int half, int dim, int thread) {
  int row = thread / 32 * 16 + thread % 32 / 4;
  float* base = (float*)kept + row * dim + half * (dim / 2) + thread % 4 * 2;
#pragma unroll
  for (int n = 0; n < dim / 16; ++n) {
    int column = (n ^ (row % 8)) * 8;
    *(float2*)(base + column) = make_float2(output[n * 4], output[n * 4 + 1]);
    *(float2*)(base + 8 * dim + column) = make_float2(output[n * 4 + 2], output[n * 4 + 3]);
  }
}
static __device__ __forceinline__ void attn_factors(
    const void* stats, void* factors, float sink, int head, int splits) {
  float maximum = -1e30f, total = 0;
#pragma unroll
  for (int s = 0; s < splits; ++s) maximum = fmaxf(maximum, attn_read(attn_remote(stats, s) + head * 4));
#pragma unroll
  for (int s = 0; s < splits; ++s) {
    float weight = attn_exp2(attn_read(attn_remote(stats, s) + head * 4) - maximum);
    total += attn_read(attn_remote(stats, s) + 256 + head * 4) * weight;
    ((float*)factors)[s * 64 + head] = weight;
  }
  float scale = 1.0f / (total + attn_exp2(sink - maximum));
#pragma unroll
  for (int s = 0; s < splits; ++s) ((float*)factors)[s * 64 + head] *= scale;
}
static __device__ __forceinline__ void attn_join(
    const void* kept, const void* factors, const void* out, long long first, int dim, int splits, int rank,
    int thread) {
  int parts = dim / splits / 4;
#pragma unroll 4
  for (int i = thread; i < 64 * parts; i += 256) {
    int row = i / parts, part = i % parts, column = rank * (dim / splits) + part * 4;
    int place = row * dim + ((column / 8) ^ (row % 8)) * 8 + column % 8;
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int s = 0; s < splits; ++s) {
      float4 v = attn_read4(attn_remote(kept, s) + place * 4);
      float factor = ((const float*)factors)[s * 64 + row];
      sum.x += v.x * factor, sum.y += v.y * factor, sum.z += v.z * factor, sum.w += v.w * factor;
    }
    __nv_bfloat162 low = __floats2bfloat162_rn(sum.x, sum.y), high = __floats2bfloat162_rn(sum.z, sum.w);
    uint2 both = make_uint2(*(unsigned*)&low, *(unsigned*)&high);
    *(uint2*)((__nv_bfloat16*)(size_t)out + first + row * dim + column) = both;
  }
}
"""
