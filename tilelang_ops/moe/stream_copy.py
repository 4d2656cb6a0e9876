"""The copying warps of the experts' kernels for many rows: packed weights, scales and activations to shared memory."""

import math
from typing import Any

import tilelang.language as T

from tilelang_ops.moe.stream_shape import BLOCK, StreamShape

LANES = 8  # threads that copy an activation row of 128 columns
_PIECES = 4  # threads that copy a weight row


def _weight_row(shape: StreamShape, slot: Any) -> Any:
    """Row of the block's weight rows (of a stack) that slot `slot` of a stage holds.

    Two stacks: the same. One: a lane's two rows, slots r and r + 8 of sixteen, are neighbours, so that it stores pairs.
    """
    return slot if shape.stacks == 2 else slot // 16 * 16 + slot % 8 * 2 + slot % 16 // 8


def find_weights(shape: StreamShape, fp8: bool) -> Any:
    """Macro: `places` int64 [2] of a block: where a thread's words begin in a matrix, and its scales."""
    per_word = 4 if fp8 else 8
    words, scale_rows = shape.k // per_word, -(-shape.num_out // 32) if fp8 else shape.num_out

    @T.macro
    def find(thread: Any, expert: Any, places: Any) -> None:
        places[0] = T.Cast("int64", expert) * (shape.num_out * words) + thread % _PIECES * (8 if fp8 else 4)
        places[1] = T.Cast("int64", expert) * (scale_rows * (shape.k // 32))

    return find


def copy_weights(shape: StreamShape, stacks: tuple[tuple[Any, Any], ...], fp8: bool) -> Any:
    """Macro: a stage's weight words; zeros beyond K, any rows beyond the matrix."""
    per_word = 4 if fp8 else 8
    words = shape.k // per_word
    slots = shape.copiers // _PIECES  # of one pass of the threads
    per_stack = shape.rows // shape.stacks // slots

    @T.macro
    def copy(thread: Any, step: Any, slot: Any, first_row: Any, places: Any, shared: Any) -> None:
        at = step // 2 * (BLOCK // per_word) + step % 2 * 4 if fp8 else step * (BLOCK // per_word)
        group = (step // 2 if fp8 else step) * 4 + thread % _PIECES
        for stack in tuple(range(shape.stacks)):
            to = shape.weights_at + slot * shape.weight_bytes + stack * (per_stack * slots * 64) + thread * 16
            for i in T.unroll(per_stack):
                row = first_row + _weight_row(shape, i * slots + thread // _PIECES)
                if shape.has_tail:
                    inside = group < shape.k // 32
                    place = places[0] + T.min(row, shape.num_out - 1) * words + at
                    T.call_extern(
                        "void",
                        "moe_copy_async<16>",
                        T.address_of(shared[to + i * (slots * 64)]),
                        T.address_of(stacks[stack][0][T.if_then_else(inside, place, 0)]),
                        inside,
                    )
                else:
                    T.call_extern(
                        "void",
                        "moe_copy_async16",
                        T.address_of(shared[to + i * (slots * 64)]),
                        T.address_of(stacks[stack][0][places[0] + T.min(row, shape.num_out - 1) * words + at]),
                    )

    return copy


def copy_scales(shape: StreamShape, stacks: tuple[tuple[Any, Any], ...], fp8: bool) -> Any:
    """Macro: scale bytes of four blocks of K, a row a thread at a time; zeros beyond K."""
    groups = shape.k // 32
    size = math.gcd(groups, 16)
    per_stack = shape.rows // shape.stacks

    @T.macro
    def copy(thread: Any, quad: Any, slot: Any, first_row: Any, places: Any, shared: Any) -> None:
        for i in tuple(range(shape.rows // shape.copiers)):
            row = T.min(first_row + _weight_row(shape, (i * shape.copiers + thread) % per_stack), shape.num_out - 1)
            source = places[1] + (row // 32 if fp8 else row) * groups
            to = shape.scales_at + slot * shape.scale_bytes + (i * shape.copiers + thread) * 16
            for piece in tuple(range(16 // size)):
                first = quad * 16 + piece * size
                if shape.plain_scales:
                    for v in tuple(range(size)):
                        shared[to + piece * size + v] = 0
                        if first + v < groups:
                            shared[to + piece * size + v] = stacks[i * shape.copiers // per_stack][1][
                                source + first + v
                            ]
                else:
                    T.call_extern(
                        "void",
                        f"moe_copy_async<{size}>",
                        T.address_of(shared[to + piece * size]),
                        T.address_of(
                            stacks[i * shape.copiers // per_stack][1][T.if_then_else(first < groups, source + first, 0)]
                        ),
                        first < groups,
                    )

    return copy


def copy_activations(shape: StreamShape, fp8: bool) -> Any:
    """Macro: a stage's columns of the tile's rows; rows from `count` on are left out.

    The eight threads that copy rows r, r + copiers / 8, ... hold where those begin in `rows`, each of every eighth.
    Rows of 128 bytes in panels of 64 columns, their pieces of 16 bytes permuted as wgmma wants it (128-byte swizzle).
    """
    stride = shape.copiers // LANES

    @T.macro
    def copy(thread: Any, step: Any, slot: Any, count: Any, rows: Any, x: Any, shared: Any) -> None:
        place = T.alloc_local((1,), "int32")
        piece, first = thread % LANES, thread // LANES
        for i in tuple(range(-(-shape.tile_rows // stride))):
            place[0] = T.shfl_sync(rows[i // LANES], i % LANES, LANES)
            if i * stride + first < count:
                to = slot * shape.x_bytes + (i * stride + first) * 128 + (piece ^ first % 8) * 16
                source = T.Cast("int64", place[0]) + step * (64 if fp8 else BLOCK) + piece * 8
                for panel in tuple(range(1 if fp8 else 2)):
                    T.call_extern(
                        "void",
                        "moe_copy_async16",
                        T.address_of(shared[to + panel * shape.panel_bytes]),
                        T.address_of(x[0, source + panel * 64]),
                    )

    return copy
