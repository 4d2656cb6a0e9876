"""First half of the experts for many rows on SM90: gate and up products of every tile, gated and quantized."""

from functools import partial
from typing import Any

import tilelang.language as T

from tilelang_ops.jit.hand_synced import hand_synced
from tilelang_ops.moe.gated_hidden import gated_value, group_scale, rounded_value
from tilelang_ops.moe.stream_items import CONSUMERS, StreamTiles, copy_items, count_items, multiply_items
from tilelang_ops.moe.stream_shape import BLOCK, StreamShape, operand_place, padded
from tilelang_ops.moe.warp_words import RESTORE, SOURCE
from tilelang_ops.numeric.e8m0 import magnitude_bits


def _finish(shape: StreamShape, hidden: Any, limit: Any, most: int) -> Any:
    """Macro: hidden values of an item of at most `most` rows, through Q8/32 and in operand order, to `hidden`.

    What rows beyond the tile's leave is not written out. A lane has the gate and up sums of one hidden column for two
    neighbouring rows of each eight. Groups of 32 columns are four warps' of eight.
    """
    eights, per_tile = most // 8, most // 2

    def amax_place(group: Any, warp: Any, row: Any) -> Any:
        return shape.amax_at + ((group * 4 + warp) * shape.tile_rows + row) * 4

    @T.macro
    def gate(thread: Any, acc: Any, held: Any, lists: Any, shared: Any) -> None:
        """held f32 = bf16 hidden values; largest magnitudes of the warp's columns to shared memory."""
        value = T.alloc_local((2,), "float32")
        largest = T.alloc_local((1,), "int32")
        for tile in T.unroll(shape.tiles):
            for eight in T.unroll(eights):
                for e in T.unroll(2):
                    row = eight * 8 + thread % 4 * 2 + e
                    at = tile * per_tile + eight * 4 + e
                    for h in T.unroll(2):
                        value[h] = T.Cast("float32", T.Cast("bfloat16", acc[at + h * 2] * T.float32(2.0**RESTORE)))
                    weight = T.call_extern("float32", "moe_load_float", T.address_of(shared[lists + row * 4]))
                    value[0] = T.Cast("float32", T.Cast("bfloat16", gated_value(value[0], value[1], weight, limit)))
                    held[(tile * eights + eight) * 2 + e] = value[0]
                    largest[0] = magnitude_bits(value[0])
                    for shift in (4, 8, 16):
                        largest[0] = T.max(largest[0], T.shfl_xor(largest[0], shift))
                    if thread % 32 < 4:
                        T.call_extern(
                            "void",
                            "moe_store_word",
                            T.address_of(
                                shared[amax_place(thread // 128 * shape.tiles + tile, thread % 128 // 32, row)]
                            ),
                            largest[0],
                        )

    @T.macro
    def quantize(thread: Any, held: Any, shared: Any) -> None:
        largest = T.alloc_local((1,), "int32")
        for tile in T.unroll(shape.tiles):
            group = thread // 128 * shape.tiles + tile
            place = operand_place(group * 32 + thread % 128 // 32 * 8 + thread % 32 // 4)
            for eight in T.unroll(eights):
                for e in T.unroll(2):
                    row = eight * 8 + thread % 4 * 2 + e
                    largest[0] = 0
                    for warp in T.unroll(4):
                        largest[0] = T.max(
                            largest[0],
                            T.call_extern("int32", "moe_load_word", T.address_of(shared[amax_place(group, warp, row)])),
                        )
                    T.call_extern(
                        "void",
                        "moe_store_bf16",
                        T.address_of(shared[shape.staging(row, place)]),
                        rounded_value(held[(tile * eights + eight) * 2 + e], group_scale(largest[0])),
                    )

    @T.macro
    def finish(acc: Any, notes: Any, shared: Any) -> None:
        held = T.alloc_local((shape.tiles * eights * 2,), "float32")
        thread = T.alloc_local((1,), "int32")
        facts = T.alloc_local((4,), "int32")  # rows of the tile, first place, part
        thread[0] = T.call_extern("int32", "moe_thread")
        gate(thread[0], acc, held, notes + 16, shared)
        T.sync_threads(CONSUMERS, shape.consumers)
        quantize(thread[0], held, shared)
        T.sync_threads(CONSUMERS, shape.consumers)
        T.call_extern("void", "moe_copy16", T.address_of(facts[0]), T.address_of(shared[notes]))
        for i in T.serial(T.ceildiv(facts[0] * 16, shape.consumers)):
            row = (i * shape.consumers + thread[0]) // 16
            if row < facts[0]:
                T.call_extern(
                    "void",
                    "moe_copy16",
                    T.address_of(hidden[facts[1] + row, facts[2] * BLOCK + thread[0] % 16 * 8]),
                    T.address_of(shared[shape.staging(row, thread[0] % 16 * 8)]),
                )

    return finish


def _row_place(order: Any, top_k: Any, width: int) -> Any:
    """Where the activation row of a sorted place begins; of the shared expert's: that row."""

    def place_of(place: Any, is_shared: Any) -> Any:
        return T.if_then_else(is_shared, place, order[T.if_then_else(is_shared, 0, place)] // top_k) * width

    return place_of


def _weight_of(place_weights: Any) -> Any:
    """Bits of a sorted place's routing weight; of the shared expert's rows: one."""

    def entry(place: Any, is_shared: Any) -> Any:
        weight = T.if_then_else(is_shared, T.float32(1.0), place_weights[T.if_then_else(is_shared, 0, place)])
        return T.reinterpret(weight, "int32")

    return entry


@hand_synced
def stream_gate_up_kernel(
    arch: str, dim: int, hidden_dim: int, sizes: tuple[int, ...], stages: int, words: int, registers: tuple[int, int]
) -> Any:
    """hidden[p] = Q8/32(gated product of the row at sorted place p), of all experts' tiles; the shared one's behind.

    x and hidden are values in operand order (`operand_place`), columns beyond D and I zeros. An item is 128 hidden
    columns of a tile.
    """
    shape = StreamShape(dim, hidden_dim, 2, sizes, stages, words, registers)
    width, hidden_width = padded(dim), padded(hidden_dim)
    num_rows, num_places, num_tiles = T.dynamic("num_rows"), T.dynamic("num_places"), T.dynamic("num_tiles")
    num_listed, num_words, num_scales = T.dynamic("num_listed"), T.dynamic("num_words"), T.dynamic("num_scales")
    shared_words, shared_scales = T.dynamic("shared_words"), T.dynamic("shared_scales")

    @T.prim_func
    def stream_gate_up(
        x: T.Tensor((num_rows, width), "bfloat16"),
        order: T.Tensor((num_listed,), "int32"),
        place_weights: T.Tensor((num_listed,), "float32"),
        tile_expert: T.Tensor((num_tiles,), "int32"),
        tile_begin: T.Tensor((num_tiles,), "int32"),
        tile_count: T.Tensor((num_tiles,), "int32"),
        tiles_used: T.Tensor((1,), "int32"),
        w1: T.Tensor((num_words,), "int32"),
        s1: T.Tensor((num_scales,), "uint8"),
        w3: T.Tensor((num_words,), "int32"),
        s3: T.Tensor((num_scales,), "uint8"),
        shared_w1: T.Tensor((shared_words,), "int32"),
        shared_s1: T.Tensor((shared_scales,), "uint8"),
        shared_w3: T.Tensor((shared_words,), "int32"),
        shared_s3: T.Tensor((shared_scales,), "uint8"),
        hidden: T.Tensor((num_places, hidden_width), "bfloat16"),
        num_assigned: T.int32,
        num_shared: T.int32,
        top_k: T.int32,
        limit: T.float32,
        blocks: T.int32,
    ):
        with T.Kernel(blocks, threads=shape.threads) as block:
            T.import_source(SOURCE)
            T.annotate_min_blocks_per_sm(1)
            thread = T.get_thread_binding()
            shared = T.alloc_shared((shape.shared_bytes,), "uint8")
            full = T.alloc_barrier([shape.copiers * (2 if shape.plain_scales else 1)] * stages)
            empty = T.alloc_barrier([shape.consumers // 32] * stages)
            noted = T.alloc_barrier([shape.copiers] * 2)
            read = T.alloc_barrier([shape.consumers // 32] * 2)
            barriers = (full, empty, noted, read)
            descriptor = T.alloc_wgmma_desc()
            T.initialize_wgmma_descriptor(descriptor, T.address_of(shared[0]), 1, 1, 64)
            facts = T.alloc_local((2,), "int32")
            tiles = StreamTiles(shape, num_shared, num_assigned, tile_expert, tile_begin, tile_count, facts)
            copy = copy_items(
                tiles,
                ((w1, s1), (w3, s3)),
                ((shared_w1, shared_s1), (shared_w3, shared_s3)),
                _row_place(order, top_k, width),
                _weight_of(place_weights),
            )
            multiply = multiply_items(shape, partial(_finish, shape, hidden, limit))
            if thread >= shape.consumers:
                T.set_max_nreg(shape.registers[0], 0)
                count_items(tiles, tiles_used)
                copy(thread - shape.consumers, block, blocks, x, barriers, shared)
            else:
                T.set_max_nreg(shape.registers[1], 1)
                multiply(thread, barriers, shared, descriptor)

    return stream_gate_up
