"""The producer of an attention kernel: gathers packed vectors, and leaves them as float16 tiles in shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tilelang.language as T

from tilelang_ops.attention.packed_keys import FP8_GROUP32, KEYS, vector_words, word_bytes

_ROWS = 8  # rows of a swizzle pattern: one lane of eight for each
_PART_BYTES = 16


@dataclass(frozen=True)
class KeyStream:
    """Static shape of the stream; `warps` warps run it.

    A tile is KEYS keys in `chunks` chunks of 128 columns, each announced by its own barrier, so that the product with a
    tile starts when a quarter of it is there. Lane 8 q + r of a warp handles part q of four neighbours, of the keys
    8 g + r: eight lanes store to eight rows, which the 128-byte swizzle spreads over all banks, and the four parts of a
    key are 64 bytes in a row. Packed words go through registers: a "unit" is what one thread holds, 16 bytes a slot,
    slot = 64-byte run * `keys` + key; the slots of the next unit are loaded as those of the current one are decoded.
    An FP4 tile is one unit, an FP8 tile two (its left and right half of the columns). Entries are looked up three tiles
    ahead, their blocks two, so that neither load is waited for.

    Attributes:
        dim: columns, 256 or 512.
        layout: of the entries.
        has_entries: False for a window alone.
        warps: 4 or 8.
        eager: whether a slot is loaded as soon as it is decoded, else a unit after the last fence of the one before.
    """

    dim: int
    layout: str
    has_entries: bool
    warps: int
    eager: bool

    @property
    def chunks(self) -> int:
        """Barriers of a tile."""
        return self.dim // 128

    @property
    def keys(self) -> int:
        """Keys of a tile that a lane handles."""
        return KEYS // _ROWS // self.warps

    @property
    def slots(self) -> int:
        """16-byte loads of a unit."""
        return self.chunks * self.keys

    def bytes(self, layout: str) -> int:
        """Of a packed vector."""
        return vector_words(layout, self.dim) * word_bytes(layout, self.dim)

    def run(self) -> Any:
        """The macro that streams all tiles of a thread block's items; see its arguments."""
        dim, chunks, num_keys, slots = self.dim, self.chunks, self.keys, self.slots
        row_groups, eager = self.warps, self.eager
        current = num_keys if eager else 0
        fp8_window, fp4 = FP8_GROUP32, self.layout != FP8_GROUP32

        @T.macro
        def load_slot(slot: int, key: Any, half: Any, is_fp4: Any, quarter: Any, codes: Any, scales: Any):
            run = slot // num_keys
            T.call_extern(
                "void",
                "attn_load_codes",
                key,
                half * (dim // 2) + run * 64 + quarter * _PART_BYTES,
                T.address_of(codes[slot * 4]),
            )
            offset = T.if_then_else(is_fp4, dim // 2 + run * 8 + quarter * 2, dim + half * (dim // 64) + run * 2)
            scales[slot] = T.call_extern("int32", "attn_load_scales", key, offset)

        @T.macro
        def decode_fp4(slot: int, base: Any, place: Any, codes: Any, scales: Any):
            run, key = slot // num_keys, slot % num_keys
            pair = T.call_extern("uint32", "attn_e4m3_folded", T.Cast("uint32", scales[slot]))
            low = T.call_extern("uint32", "attn_low_half", pair)
            high = T.call_extern("uint32", "attn_high_half", pair)
            for v in T.unroll(4):
                T.call_extern(
                    "void",
                    "attn_e2m1_folded",
                    codes[slot * 4 + v],
                    T.if_then_else(v < 2, low, high),
                    base,
                    (place ^ (v * 16)) + run * 16384 + key * row_groups * 1024,
                )

        @T.macro
        def decode_fp8(slot: int, half: int, base: Any, place: Any, quarter: Any, codes: Any, scales: Any):
            run, key = slot // num_keys, slot % num_keys
            byte = (scales[slot] >> (quarter // 2 * 8)) & 0xFF
            scale = T.call_extern("uint32", "attn_e8m0_scale", byte)
            for v in T.unroll(2):
                T.call_extern(
                    "void",
                    "attn_e4m3_to_half",
                    codes[slot * 4 + 2 * v],
                    codes[slot * 4 + 2 * v + 1],
                    scale,
                    base,
                    (place ^ (v * 16)) + (half * chunks + run) * 8192 + key * row_groups * 1024,
                )

        @T.macro
        def look_up(shape: Any, items: Any, row_in_tile: Any, sources: Any, state: Any):
            """One step: addresses of the next tile, blocks of the one after, entries of the one after that."""
            window, window_index, cache, block_ids, first_block, picks, unit_entries, unit_shift = sources
            tile_rows, num_tiles, first_tile = shape
            trips, first_item, item_step, head_blocks = items
            entry, kind, block, key, place, first, quotient, diverge = state
            for j in T.unroll(num_keys):
                key[num_keys + j] = key[j]
                key[j] = 0
                if entry[num_keys + j] >= 0:
                    if self.has_entries:
                        if kind[1] != 0:
                            key[j] = T.call_extern("int64", "attn_address", T.address_of(window[0, 0])) + T.Cast(
                                "int64", entry[num_keys + j]
                            ) * self.bytes(fp8_window)
                        else:
                            key[j] = T.call_extern("int64", "attn_address", T.address_of(cache[0, 0])) + (
                                block[j] * unit_entries + entry[num_keys + j]
                            ) * self.bytes(self.layout)
                    else:
                        key[j] = T.call_extern("int64", "attn_address", T.address_of(window[0, 0])) + T.Cast(
                            "int64", entry[num_keys + j]
                        ) * self.bytes(fp8_window)
            kind[2] = kind[1]
            kind[1] = kind[0]
            for j in T.unroll(num_keys):
                entry[num_keys + j] = entry[j]
                if self.has_entries and kind[1] == 0 and entry[j] >= 0:
                    quotient[0] = T.call_extern("int32", "attn_quotient", entry[j], unit_entries, unit_shift)
                    block[j] = T.call_extern(
                        "int64", "attn_load_long", T.address_of(block_ids[0]), first[0] + quotient[0]
                    )
                    entry[num_keys + j] = entry[j] - quotient[0] * unit_entries
                entry[j] = -1
            if place[0] < trips:
                row = (first_item + place[0] * item_step) // head_blocks
                tile = first_tile + place[1]
                kind[0] = T.Cast("int32", tile < tile_rows)
                if self.has_entries:
                    first[0] = T.call_extern(
                        "int64", "attn_load_long", T.address_of(first_block[0]), T.Cast("int64", row + diverge[0])
                    )
                for j in T.unroll(num_keys):
                    if tile < tile_rows:
                        if tile * KEYS + row_in_tile + j * row_groups * _ROWS < window_index.shape[1]:
                            entry[j] = T.Cast(
                                "int32", window_index[row, tile * KEYS + row_in_tile + j * row_groups * _ROWS]
                            )
                    elif self.has_entries:  # noqa: SIM102 - known when the kernel is written, what is below is not
                        if (tile - tile_rows) * KEYS + row_in_tile + j * row_groups * _ROWS < picks.shape[1]:
                            entry[j] = T.Cast(
                                "int32",
                                picks[row, (tile - tile_rows) * KEYS + row_in_tile + j * row_groups * _ROWS],
                            )
                place[1] += 1
                if place[1] == num_tiles:
                    place[1] = 0
                    place[0] += 1

        @T.macro
        def finish_chunk(slot: Any, chunk: Any, lane: Any, full: Any):
            T.fence_proxy_async()
            T.sync_warp()
            if lane == 0:
                T.barrier_arrive(full[slot * chunks + chunk])

        @T.macro
        def stream(
            thread: Any,
            shape: Any,
            items: Any,
            sources: Any,
            tiles: Any,
            bias: Any,
            full: Any,
            empty: Any,
        ):
            """Fills tiles[slot], slot = tile % 2, for `num_tiles` tiles of each of `trips` items first_item,
            first_item + item_step ...

            Args:
                thread: of the producer, from 0.
                shape: window_tiles of a row; num_tiles of this block, and first_tile, the first, window first.
                items: trips, first_item, item_step, head_blocks: item // head_blocks is the row.
                sources: window, window_index, cache, block_ids, first_block, picks, unit_entries,
                    unit_shift, log2 of the latter or -1.
                tiles: float16 shared [2, KEYS, dim], FP4 keys divided by 2^FOLD.
                bias: float32 shared [2, KEYS]: 0, or -inf for absent keys.
                full: barriers [2 * chunks]: chunk c of slot s arrives at s * chunks + c, once a warp.
                empty: barriers [2 * 2]: half h of slot s is free again at 2 s + h.
            """
            codes = T.alloc_local((slots * 4,), "int32")
            scales = T.alloc_local((slots,), "int32")
            entry = T.alloc_local((2 * num_keys,), "int32")
            kind = T.alloc_local((3,), "int32")
            block = T.alloc_local((num_keys,), "int64")
            key = T.alloc_local((2 * num_keys,), "int64")
            place = T.alloc_local((2,), "int32")
            first = T.alloc_local((1,), "int64")
            window_tiles, num_tiles, first_tile = shape
            trips = items[0]
            lane = thread % 32
            quotient = T.alloc_local((1,), "int32")
            # 0, which the compiler cannot know: a load for the whole warp would be waited for at once.
            diverge = T.alloc_local((1,), "int32")
            diverge[0] = T.if_then_else(sources[7] < -1 - lane, 1, 0)
            state = (entry, kind, block, key, place, first, quotient, diverge)
            quarter = lane // _ROWS
            row_in_tile = thread // 32 * _ROWS + lane % _ROWS
            base = T.address_of(tiles[0, 0, 0])
            fp4_place = quarter // 2 * 8192 + row_in_tile * 128 + ((quarter % 2 * 4) ^ (lane % _ROWS)) * 16
            fp8_place = row_in_tile * 128 + ((quarter * 2) ^ (lane % _ROWS)) * 16
            for j in T.unroll(2 * num_keys):
                entry[j] = -1
                key[j] = 0
            for j in T.unroll(num_keys):
                block[j] = 0
            for j in T.unroll(3):
                kind[j] = 1
            place[0] = 0
            place[1] = 0
            first[0] = 0
            for _ in T.unroll(3):
                look_up(shape, items, row_in_tile, sources, state)
            for slot in T.unroll(slots):
                load_slot(slot, key[slot % num_keys], 0, fp4 and kind[2] == 0, quarter, codes, scales)
            for trip in T.serial(trips):
                for tile in T.serial(num_tiles):
                    side = tile % 2
                    turn = trip * ((num_tiles + 1 - side) // 2) + tile // 2
                    if eager:
                        look_up(shape, items, row_in_tile, sources, state)
                    T.barrier_wait(empty[side * 2], (turn + 1) % 2)
                    T.sync_warp()
                    if quarter == 0:
                        for j in T.unroll(num_keys):
                            bias[side, row_in_tile + j * row_groups * _ROWS] = T.if_then_else(
                                key[current + j] == 0, -T.infinity("float32"), T.float32(0)
                            )
                    if not fp4 or first_tile + tile < window_tiles:
                        for half in T.unroll(2):
                            if half == 1:
                                T.barrier_wait(empty[side * 2 + 1], (turn + 1) % 2)
                                T.sync_warp()
                            for slot in T.unroll(slots):
                                decode_fp8(
                                    slot, half, base, fp8_place + side * (KEYS * dim * 2), quarter, codes, scales
                                )
                                if eager:
                                    if half == 0:
                                        load_slot(
                                            slot, key[current + slot % num_keys], 1, False, quarter, codes, scales
                                        )
                                    else:
                                        load_slot(
                                            slot, key[slot % num_keys], 0, fp4 and kind[2] == 0, quarter, codes, scales
                                        )
                                if slot % (2 * num_keys) == 2 * num_keys - 1:
                                    finish_chunk(side, (half * chunks + slot // num_keys) // 2, lane, full)
                            if not eager and half == 0:
                                for slot in T.unroll(slots):
                                    load_slot(slot, key[current + slot % num_keys], 1, False, quarter, codes, scales)
                    else:
                        for slot in T.unroll(slots):
                            if slot == slots // 2:
                                T.barrier_wait(empty[side * 2 + 1], (turn + 1) % 2)
                                T.sync_warp()
                            decode_fp4(slot, base, fp4_place + side * (KEYS * dim * 2), codes, scales)
                            if eager:
                                load_slot(slot, key[slot % num_keys], 0, fp4 and kind[2] == 0, quarter, codes, scales)
                            if slot % num_keys == num_keys - 1:
                                finish_chunk(side, slot // num_keys, lane, full)
                    if not eager:
                        look_up(shape, items, row_in_tile, sources, state)
                        for slot in T.unroll(slots):
                            load_slot(slot, key[slot % num_keys], 0, fp4 and kind[2] == 0, quarter, codes, scales)

        return stream
