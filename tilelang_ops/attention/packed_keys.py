"""Tiles of packed key=value vectors, gathered by index: packed words into registers, then bf16 into shared memory.

A thread holds some 16-byte parts of codes with their scales ("slots"): part number slot * threads + thread of the tile.
"""

from __future__ import annotations

import math
from typing import Any

import tilelang.language as T

from tilelang_ops.numeric.e2m1 import decode_e2m1
from tilelang_ops.numeric.e4m3 import decode_e4m3
from tilelang_ops.numeric.e8m0 import decode_e8m0

FP8_GROUP32 = "fp8_group32"  # e4m3 codes, then one E8M0 byte per 32
FP4_GROUP16 = "fp4_group16"  # e2m1 nibbles, then one e4m3 byte per 16
KEYS = 64  # vectors of one tile
_ABSENT = -1  # scale bits of an absent vector


def part_values(layout: str) -> int:
    """Values whose codes fill one 16-byte part."""
    return 16 if layout == FP8_GROUP32 else 32


def num_slots(layout: str, dim: int, threads: int) -> int:
    """Parts of a tile that one of `threads` threads holds at most."""
    return -(-KEYS * dim // part_values(layout) // threads)


def word_bytes(layout: str, dim: int) -> int:
    """Bytes of the words that kernels see a cache as: 4 (int32) where packed vectors are made of whole ones, else 1.

    Raises:
        ValueError: the width has no whole groups.
    """
    if dim % 32:
        raise ValueError(f"head_dim {dim}: kernels take packed {layout} vectors of a multiple of 32 values")
    return 1 if _packed_bytes(layout, dim) % 4 else 4


def vector_words(layout: str, dim: int) -> int:
    """Words of one packed vector."""
    return _packed_bytes(layout, dim) // word_bytes(layout, dim)


def word_dtype(layout: str, dim: int) -> str:
    """dtype of those words."""
    return "int32" if word_bytes(layout, dim) == 4 else "uint8"


def _packed_bytes(layout: str, dim: int) -> int:
    return dim + dim // 32 if layout == FP8_GROUP32 else dim // 2 + dim // 16


@T.macro
def load_window(
    dim: int, threads: int, tile: Any, row: Any, tid: Any, window: Any, window_index: Any, codes: Any, scales: Any
) -> None:
    """Parts of the vectors at places KEYS * tile .. of `window_index[row]`; absent and missing ones become zeros."""
    parts = dim // part_values(FP8_GROUP32)
    vector = T.alloc_var("int64")
    for slot in T.unroll(num_slots(FP8_GROUP32, dim, threads)):
        place = tile * KEYS + (slot * threads + tid) // parts
        _load_absent(codes, scales, slot)
        if slot * threads + tid < KEYS * parts and place < window_index.shape[1]:
            vector = window_index[row, place]
            if vector >= 0:
                _load_part(FP8_GROUP32, dim, window, vector, (slot * threads + tid) % parts, codes, scales, slot)


@T.macro
def load_entries(
    layout: str,
    dim: int,
    threads: int,
    tile: Any,
    row: Any,
    tid: Any,
    cache: Any,
    block_ids: Any,
    first_block: Any,
    picks: Any,
    unit_entries: Any,
    codes: Any,
    scales: Any,
) -> None:
    """The same of the entries at places KEYS * tile .. of `picks[row]`, through the block table."""
    parts = dim // part_values(layout)
    vector = T.alloc_var("int64")
    entry = T.alloc_var("int32")
    for slot in T.unroll(num_slots(layout, dim, threads)):
        place = tile * KEYS + (slot * threads + tid) // parts
        _load_absent(codes, scales, slot)
        if slot * threads + tid < KEYS * parts and place < picks.shape[1]:
            entry = T.Cast("int32", picks[row, place])
            if entry >= 0:
                vector = block_ids[first_block[row] + T.truncdiv(entry, unit_entries)]
                vector = vector * unit_entries + T.truncmod(entry, unit_entries)
                _load_part(layout, dim, cache, vector, (slot * threads + tid) % parts, codes, scales, slot)


@T.macro
def unpack(layout: str, dim: int, threads: int, tid: Any, codes: Any, scales: Any, keys: Any, bias: Any) -> None:
    """Loaded parts into bf16 keys [KEYS, dim] in shared memory; bias [KEYS] is 0, or -inf for absent vectors.

    A code times its scale is exact in bf16: an e4m3 value has 4 significant bits, an e2m1 value with its scale 2 + 4.
    """
    parts = dim // part_values(layout)
    values = T.alloc_local((part_values(layout),), "bfloat16")
    for slot in T.unroll(num_slots(layout, dim, threads)):
        if slot * threads + tid < KEYS * parts:
            key = (slot * threads + tid) // parts
            part = (slot * threads + tid) % parts
            _decode_part(layout, codes, scales, slot, values)
            for wide in T.unroll(part_values(layout) // 8):
                for i in T.vectorized(8):
                    keys[key, part * part_values(layout) + wide * 8 + i] = values[wide * 8 + i]
            if part == 0:
                bias[key] = T.if_then_else(scales[slot] == _ABSENT, -T.infinity("float32"), T.float32(0))


@T.macro
def _load_part(layout: str, dim: int, source: Any, vector: Any, part: Any, codes: Any, scales: Any, slot: int) -> None:
    """codes[4 slot .. 4 slot + 3] and scales[slot] of one part; loads are as wide as vectors are aligned."""
    first_scale = dim if layout == FP8_GROUP32 else dim // 2  # bytes
    if word_bytes(layout, dim) == 4:
        width = math.gcd(vector_words(layout, dim), 4)
        for wide in T.unroll(4 // width):
            for i in T.vectorized(width):
                codes[slot * 4 + wide * width + i] = source[vector, part * 4 + wide * width + i]
        if layout == FP8_GROUP32:  # one byte for two parts
            scales[slot] = (source[vector, first_scale // 4 + part // 8] >> (part // 2 % 4 * 8)) & 0xFF
        else:  # two bytes
            scales[slot] = (source[vector, first_scale // 4 + part // 2] >> (part % 2 * 16)) & 0xFFFF
    else:
        for i in T.unroll(4):
            codes[slot * 4 + i] = 0
            for k in T.unroll(4):
                byte = T.Cast("int32", source[vector, part * 16 + i * 4 + k])
                codes[slot * 4 + i] = codes[slot * 4 + i] | (byte << (k * 8))
        if layout == FP8_GROUP32:
            scales[slot] = T.Cast("int32", source[vector, first_scale + part // 2])
        else:
            high = T.Cast("int32", source[vector, first_scale + part * 2 + 1])
            scales[slot] = T.Cast("int32", source[vector, first_scale + part * 2]) | (high << 8)


@T.macro
def _load_absent(codes: Any, scales: Any, slot: int) -> None:
    for i in T.unroll(4):
        codes[slot * 4 + i] = 0
    scales[slot] = _ABSENT


@T.macro
def _decode_part(layout: str, codes: Any, scales: Any, slot: int, values: Any) -> None:
    """values[0 .. part_values): zeros where the vector is absent (codes of 0 times the scale of byte 0)."""
    if layout == FP8_GROUP32:
        scale = decode_e8m0(T.max(scales[slot], 0))
        for i in T.unroll(16):
            code = (codes[slot * 4 + i // 4] >> (i % 4 * 8)) & 0xFF
            values[i] = T.Cast("bfloat16", decode_e4m3(code) * scale)
    else:
        for half in T.unroll(2):
            scale = decode_e4m3((T.max(scales[slot], 0) >> (half * 8)) & 0xFF)
            for i in T.unroll(16):
                code = (codes[slot * 4 + half * 2 + i // 8] >> (i % 8 * 4)) & 0xF
                values[half * 16 + i] = T.Cast("bfloat16", decode_e2m1(code) * scale)
