"""Packed expert weights inside SM100 kernels: eight (FP4) or four (FP8) codes of a 32-bit word become e4m3 operands."""

from __future__ import annotations

from typing import Any

import tilelang.language as T

PRELUDE = """
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
"""


def codes_per_word(fp8: bool) -> int:
    """Weight codes in 32 bits."""
    return 4 if fp8 else 8


def words_per_group(fp8: bool) -> int:
    """32-bit words of the 32 columns that share a scale: one or two 16-byte loads."""
    return 32 // codes_per_word(fp8)


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
