"""Second half of the experts for many rows on SM90: the down product of every tile, in assignment order."""

from functools import partial
from typing import Any

import tilelang.language as T

from tilelang_ops.jit.hand_synced import hand_synced
from tilelang_ops.moe.stream_items import StreamTiles, copy_items, count_items, multiply_items
from tilelang_ops.moe.stream_shape import StreamShape, padded
from tilelang_ops.moe.warp_words import RESTORE, SOURCE


def _finish(shape: StreamShape, out: Any, most: int) -> Any:
    """Macro: an item's sums of at most `most` rows to `out`, rounded to bf16.

    A lane has sums of two neighbouring columns, and a warp's stores are 32 bytes of each row.
    """

    @T.macro
    def finish(acc: Any, notes: Any, shared: Any) -> None:
        thread = T.alloc_local((1,), "int32")
        facts = T.alloc_local((4,), "int32")  # rows of the tile, first place, part
        row_out = T.alloc_local((1,), "int32")
        thread[0] = T.call_extern("int32", "moe_thread")
        T.call_extern("void", "moe_copy16", T.address_of(facts[0]), T.address_of(shared[notes]))
        for eight in T.unroll(most // 8):
            for e in T.unroll(2):
                row = eight * 8 + thread[0] % 4 * 2 + e
                if row < facts[0]:
                    row_out[0] = T.call_extern("int32", "moe_load_word", T.address_of(shared[notes + 16 + row * 4]))
                    for tile in T.unroll(shape.tiles):
                        sixteen = (thread[0] // 128 * shape.tiles + tile) * 4 + thread[0] % 128 // 32
                        column = facts[2] * shape.columns + sixteen * 16 + thread[0] % 32 // 4 * 2
                        if column < shape.num_out:
                            T.call_extern(
                                "void",
                                "moe_store_pair",
                                T.address_of(out[0, T.Cast("int64", row_out[0]) * shape.num_out + column]),
                                acc[tile * (most // 2) + eight * 4 + e] * T.float32(2.0**RESTORE),
                                acc[tile * (most // 2) + eight * 4 + e + 2] * T.float32(2.0**RESTORE),
                            )

    return finish


def _row_place(num_assigned: Any, width: int) -> Any:
    """Where the hidden vector of a sorted place begins; the shared expert's follow the others."""

    def place_of(place: Any, is_shared: Any) -> Any:
        return T.if_then_else(is_shared, num_assigned + place, place) * width

    return place_of


def _row_out(order: Any, num_assigned: Any) -> Any:
    """Row of the result of a sorted place: its assignment; the shared expert's rows follow."""

    def entry(place: Any, is_shared: Any) -> Any:
        return T.if_then_else(is_shared, num_assigned + place, order[T.if_then_else(is_shared, 0, place)])

    return entry


@hand_synced
def stream_down_kernel(
    arch: str, dim: int, hidden_dim: int, sizes: tuple[int, ...], stages: int, words: int, registers: tuple[int, int]
) -> Any:
    """out[assignment at sorted place p] = bf16(w2 of its expert @ hidden[p]); the shared expert's follow behind.

    hidden is what `stream_gate_up_kernel` leaves. An item is 256 columns of a tile.
    """
    shape = StreamShape(hidden_dim, dim, 1, sizes, stages, words, registers)
    width = padded(hidden_dim)
    num_places, num_tiles = T.dynamic("num_places"), T.dynamic("num_tiles")
    num_listed, num_words, num_scales = T.dynamic("num_listed"), T.dynamic("num_words"), T.dynamic("num_scales")
    shared_words, shared_scales = T.dynamic("shared_words"), T.dynamic("shared_scales")

    @T.prim_func
    def stream_down(
        hidden: T.Tensor((num_places, width), "bfloat16"),
        order: T.Tensor((num_listed,), "int32"),
        tile_expert: T.Tensor((num_tiles,), "int32"),
        tile_begin: T.Tensor((num_tiles,), "int32"),
        tile_count: T.Tensor((num_tiles,), "int32"),
        tiles_used: T.Tensor((1,), "int32"),
        w2: T.Tensor((num_words,), "int32"),
        s2: T.Tensor((num_scales,), "uint8"),
        shared_w2: T.Tensor((shared_words,), "int32"),
        shared_s2: T.Tensor((shared_scales,), "uint8"),
        out: T.Tensor((num_places, dim), "bfloat16"),
        num_assigned: T.int32,
        num_shared: T.int32,
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
                ((w2, s2),),
                ((shared_w2, shared_s2),),
                _row_place(num_assigned, width),
                _row_out(order, num_assigned),
            )
            multiply = multiply_items(shape, partial(_finish, shape, out))
            if thread >= shape.consumers:
                T.set_max_nreg(shape.registers[0], 0)
                count_items(tiles, tiles_used)
                copy(thread - shape.consumers, block, blocks, hidden, barriers, shared)
            else:
                T.set_max_nreg(shape.registers[1], 1)
                multiply(thread, barriers, shared, descriptor)

    return stream_down
