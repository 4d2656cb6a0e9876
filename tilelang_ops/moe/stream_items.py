"""How a block of the experts' kernels for many rows goes through its items: part of the columns of one tile each.

One warpgroup copies, as many stages ahead as there are, also into the next item; the others multiply and finish items.
"""

from dataclasses import dataclass
from typing import Any

import tilelang.language as T

from tilelang_ops.moe.stream_copy import LANES, copy_activations, copy_scales, copy_weights, find_weights
from tilelang_ops.moe.stream_product import multiply_tile
from tilelang_ops.moe.stream_shape import StreamShape

CONSUMERS = 8  # named barrier of the multiplying warps


@dataclass(frozen=True)
class StreamTiles:
    """Tiles of the step: those of the shared expert, which takes all rows in order, then those of `ExpertLayout`.

    Attributes:
        shape: of the product.
        num_shared: rows that the shared expert takes: all of the step, or none.
        num_assigned: rows * top_k; 0: the lists are not read.
        tile_expert: int32 [tiles].
        tile_begin: int32 [tiles].
        tile_count: int32 [tiles].
        facts: local int32 [2]: number of the shared expert's items, and of all.
    """

    shape: StreamShape
    num_shared: Any
    num_assigned: Any
    tile_expert: Any
    tile_begin: Any
    tile_count: Any
    facts: Any

    def is_shared(self, item: Any) -> Any:
        return item < self.facts[0]


@T.macro
def count_items(tiles: StreamTiles, tiles_used: Any) -> None:
    """Fills `tiles.facts`; tiles_used int32 [1]."""
    tiles.facts[0] = T.ceildiv(tiles.num_shared, tiles.shape.tile_rows) * tiles.shape.parts
    used = T.if_then_else(tiles.num_assigned > 0, tiles_used[0], 0)
    tiles.facts[1] = tiles.facts[0] + used * tiles.shape.parts


@T.macro
def _look_up(tiles: StreamTiles, item: Any, found: Any) -> None:
    """found int32 [4] = rows of the item's tile, its first place (the shared expert's: row), its expert, the part."""
    tile = T.alloc_local((1,), "int32")
    tile[0] = item // tiles.shape.parts
    found[3] = item - tile[0] * tiles.shape.parts
    if tiles.is_shared(item):
        found[0] = T.min(tiles.num_shared - tile[0] * tiles.shape.tile_rows, tiles.shape.tile_rows)
        found[1] = tile[0] * tiles.shape.tile_rows
        found[2] = 0
    else:
        tile[0] -= tiles.facts[0] // tiles.shape.parts
        found[0] = tiles.tile_count[tile[0]]
        found[1] = tiles.tile_begin[tile[0]]
        found[2] = tiles.tile_expert[tile[0]]


def copy_items(tiles: StreamTiles, routed: Any, shared_expert: Any, row_place: Any, list_entry: Any) -> Any:
    """Macro: what the copying warps do: an item's notes, then its stages.

    Args:
        tiles: of the step.
        routed: (words, scales), flat, of each stack of the FP4 experts.
        shared_expert: the same of the FP8 one.
        row_place: (place or row, is it the shared expert's) -> element of x where that row begins.
        list_entry: (place or row, is it the shared expert's) -> int32 bits that are noted for an activation row.
    """
    shape = tiles.shape
    held = entries = -(-shape.tile_rows // shape.copiers)  # rows and entries of a thread

    @T.macro
    def find_rows(thread: Any, item: Any, found: Any, rows: Any) -> None:
        """`rows` behind the first half = where rows of x begin that this thread looks up, then its rows' entries."""
        for h in T.unroll(held):
            row = (h * LANES + thread % LANES) * (shape.copiers // LANES) + thread // LANES
            if row < found[0]:
                rows[held + h] = row_place(found[1] + row, tiles.is_shared(item))
        for e in T.unroll(entries):
            if e * shape.copiers + thread < found[0]:
                rows[2 * held + e] = list_entry(found[1] + e * shape.copiers + thread, tiles.is_shared(item))

    def copy_steps(fp8: bool) -> Any:
        stacks = shared_expert if fp8 else routed
        weights, scales = copy_weights(shape, stacks, fp8), copy_scales(shape, stacks, fp8)
        activations, find = copy_activations(shape, fp8), find_weights(shape, fp8)
        per_block = 2 if fp8 else 1

        @T.macro
        def run(
            thread: Any, item: Any, found: Any, current: Any, rows: Any, x: Any, ring: Any, barriers: Any, shared: Any
        ) -> None:
            places = T.alloc_local((2,), "int64")
            find(thread, current[2], places)
            for step in T.serial(shape.blocks * per_block):
                T.mbarrier_wait_parity(barriers[1][ring[0]], ring[1] ^ 1)
                weights(thread, step, ring[0], current[1], places, shared)
                if step % (4 * per_block) == 0:
                    scales(thread, step // (4 * per_block), ring[2], current[1], places, shared)
                    ring[2] = T.if_then_else(ring[2] == shape.stages - 1, 0, ring[2] + 1)
                activations(thread, step, ring[0], current[0], rows, x, shared)
                T.cp_async_barrier_noinc(barriers[0][ring[0]])
                if shape.plain_scales:
                    T.mbarrier_arrive(barriers[0][ring[0]])
                ring[0] += 1
                if ring[0] == shape.stages:
                    ring[0] = 0
                    ring[1] ^= 1
                if item[0] + item[1] < tiles.facts[1]:  # the next one's lists arrive while this one's stages are copied
                    if step == 0:
                        _look_up(tiles, item[0] + item[1], found)
                    if step == min(2, shape.blocks - 1):
                        find_rows(thread, item[0] + item[1], found, rows)

        return run

    steps_fp8, steps_fp4 = copy_steps(True), copy_steps(False)

    @T.macro
    def note(thread: Any, kind: Any, found: Any, rows: Any, notes: Any, barriers: Any, shared: Any) -> None:
        """Notes in shared memory: rows, first place (the shared expert's follow the others), part, kind; rows' entries.

        Kind: 0 routed, 1 of the shared expert, 2 no more items.
        """
        T.mbarrier_wait_parity(barriers[3][notes[0]], notes[1] ^ 1)
        at = shape.notes(notes[0])
        if thread == 0:
            place = T.if_then_else(kind == 1, found[1] + tiles.num_assigned, found[1])
            T.call_extern("void", "moe_store_words", T.address_of(shared[at]), found[0], place, found[3], kind)
        for e in T.unroll(entries):
            row = e * shape.copiers + thread
            if row < found[0]:
                T.call_extern("void", "moe_store_word", T.address_of(shared[at + 16 + row * 4]), rows[2 * held + e])
        T.mbarrier_arrive(barriers[2][notes[0]])
        notes[1] ^= notes[0]
        notes[0] ^= 1

    @T.macro
    def copy(thread: Any, block: Any, blocks: Any, x: Any, barriers: Any, shared: Any) -> None:
        ring = T.alloc_local((3,), "int32")  # slot of the next stage, its phase, slot of the next quad of blocks
        notes = T.alloc_local((2,), "int32")  # slot of the next notes, its phase
        found = T.alloc_local((4,), "int32")
        current = T.alloc_local((3,), "int32")  # rows of the tile, first weight row, expert
        rows = T.alloc_local((2 * held + entries,), "int32")
        item = T.alloc_local((2,), "int32")  # and how many blocks there are
        for i in T.unroll(3):
            ring[i] = 0
        for i in T.unroll(2 * held + entries):
            rows[i] = 0
        notes[0] = 0
        notes[1] = 0
        item[0] = block
        item[1] = blocks
        found[0] = 0
        if item[0] < tiles.facts[1]:
            _look_up(tiles, item[0], found)
            find_rows(thread, item[0], found, rows)
        while item[0] < tiles.facts[1]:
            note(thread, T.Cast("int32", tiles.is_shared(item[0])), found, rows, notes, barriers, shared)
            current[0] = found[0]
            current[1] = found[3] * shape.columns
            current[2] = found[2]
            for h in T.unroll(held):
                rows[h] = rows[held + h]
            if tiles.is_shared(item[0]):
                steps_fp8(thread, item, found, current, rows, x, ring, barriers, shared)
            else:
                steps_fp4(thread, item, found, current, rows, x, ring, barriers, shared)
            item[0] += item[1]
        note(thread, 2, found, rows, notes, barriers, shared)

    return copy


def multiply_items(shape: StreamShape, finish_of: Any) -> Any:
    """Macro: what the multiplying warps do.

    Args:
        shape: of the product.
        finish_of: most rows -> macro (acc, notes, shared) that all of them call with an item's sums, too small by
            2^RESTORE; `notes` is the byte in shared memory where the item's notes begin.
    """

    def form(fp8: bool, most: int) -> Any:
        multiply, finish = multiply_tile(shape, fp8, most), finish_of(most)

        @T.macro
        def run(thread: Any, rows: Any, notes: Any, ring: Any, barriers: Any, shared: Any, descriptor: Any) -> None:
            acc = T.alloc_local((shape.tiles * most // 2,), "float32")
            multiply(thread, acc, ring, barriers[0], barriers[1], shared, descriptor)
            finish(acc, notes, shared)

        return run

    def choice(most: int, small: Any, large: Any) -> Any:
        # Always with an `else`: the compiler takes an `if` without one apart, and sums would have to survive between.
        @T.macro
        def run(thread: Any, rows: Any, notes: Any, ring: Any, barriers: Any, shared: Any, descriptor: Any) -> None:
            if rows <= most:
                small(thread, rows, notes, ring, barriers, shared, descriptor)
            else:
                large(thread, rows, notes, ring, barriers, shared, descriptor)

        return run

    def products(fp8: bool) -> Any:
        *rest, last = shape.sizes_fp8 if fp8 else shape.sizes
        chosen = form(fp8, last)
        for most in reversed(rest):
            chosen = choice(most, form(fp8, most), chosen)
        return chosen

    product_fp8, product_fp4 = products(True), products(False)

    @T.macro
    def multiply(thread: Any, barriers: Any, shared: Any, descriptor: Any) -> None:
        ring = T.alloc_local((3,), "int32")
        notes = T.alloc_local((2,), "int32")
        facts = T.alloc_local((2,), "int32")  # rows of the tile, kind
        for i in T.unroll(3):
            ring[i] = 0
        notes[0] = 0
        notes[1] = 0
        T.mbarrier_wait_parity(barriers[2][0], 0)
        facts[1] = T.call_extern("int32", "moe_load_word", T.address_of(shared[shape.notes(0) + 12]))
        while facts[1] < 2:
            facts[0] = T.call_extern("int32", "moe_load_word", T.address_of(shared[shape.notes(notes[0])]))
            if facts[1] == 1:
                product_fp8(thread, facts[0], shape.notes(notes[0]), ring, barriers, shared, descriptor)
            else:
                product_fp4(thread, facts[0], shape.notes(notes[0]), ring, barriers, shared, descriptor)
            if thread % 32 == 0:
                T.mbarrier_arrive(barriers[3][notes[0]])
            notes[1] ^= notes[0]
            notes[0] ^= 1
            T.mbarrier_wait_parity(barriers[2][notes[0]], notes[1])
            facts[1] = T.call_extern("int32", "moe_load_word", T.address_of(shared[shape.notes(notes[0]) + 12]))

    return multiply
