"""The multiplying warps of the experts' kernels for many rows (SM90): weights decoded into registers, wgmma.

A lane holds 32 columns of two weight rows as they lie in memory and decodes them straight into wgmma's first operand;
the activation rows, in operand order, are the second one. So decoded weights are never stored, and while the tensor
cores work on one half of a step the lane decodes the next.
"""

from typing import Any

import tilelang.language as T

from tilelang_ops.moe.stream_shape import StreamShape
from tilelang_ops.moe.warp_words import factor_shift


def _low_slot(shape: StreamShape, warpgroup: Any, tile: int, lane_row: Any, warp: Any) -> Any:
    """Slot of a lane's first weight row of a tile in a stage."""
    index = warpgroup * shape.tiles + tile
    return index * 32 + warp * 8 + lane_row if shape.stacks == 2 else index * 64 + warp * 16 + lane_row


def _decode_part(shape: StreamShape, fp8: bool) -> Any:
    """Macro: a group of steps' operands, two for each word of a lane's rows, to `operands` from `to` on."""

    @T.macro
    def decode(part: int, tile: int, to: int, words: Any, factors: Any, operands: Any) -> None:
        for v in T.unroll(shape.words):
            if fp8:
                T.call_extern(
                    "void",
                    "moe_operand_e4m3",
                    T.address_of(words[tile * 8 + (part * shape.words + v) * 2]),
                    T.address_of(words[tile * 8 + 4 + (part * shape.words + v) * 2]),
                    factors[tile * 2],
                    factors[tile * 2 + 1],
                    T.address_of(operands[to + v * 8]),
                )
            else:
                T.call_extern(
                    "void",
                    "moe_operand_e2m1",
                    words[tile * 8 + part * shape.words + v],
                    words[tile * 8 + 4 + part * shape.words + v],
                    factors[tile * 2],
                    factors[tile * 2 + 1],
                    T.address_of(operands[to + v * 8]),
                )

    return decode


def _load_stage(shape: StreamShape, fp8: bool) -> Any:
    """Macro: a lane's words and factors of a stage from shared memory."""
    high = shape.rows // 2 if shape.stacks == 2 else 8

    @T.macro
    def load(block: Any, slot: Any, quad_slot: Any, warpgroup: Any, thread: Any, shared: Any, words: Any, factors: Any):
        for tile in tuple(range(shape.tiles)):
            low = _low_slot(shape, warpgroup, tile, thread % 32 // 4, thread % 128 // 32)
            for h in T.unroll(2):
                row = low + h * high
                at = shape.weights_at + slot * shape.weight_bytes + row * 64 + thread % 4 * 16
                T.call_extern("void", "moe_copy16", T.address_of(words[tile * 8 + h * 4]), T.address_of(shared[at]))
                scale = shape.scales_at + quad_slot * shape.scale_bytes + row * 16 + block % 4 * 4 + thread % 4
                factors[tile * 2 + h] = T.call_extern(
                    "int32", "moe_factor", T.Cast("int32", shared[scale]), factor_shift(fp8)
                )

    return load


def multiply_tile(shape: StreamShape, fp8: bool, columns: int) -> Any:
    """Macro: acc f32 [tiles, columns / 2] of a lane = its weight rows times `columns` activation rows, over all of K.

    A stage is multiplied in groups of `words` times 32 columns. A lane decodes for one of its tiles while the other is
    multiplied. `ring` int32 [3] counts along: slot of the next stage, the phase of its barrier, slot of the next quad
    of blocks.
    """
    load, decode = _load_stage(shape, fp8), _decode_part(shape, fp8)
    per_tile, tiles = columns // 2, tuple(range(shape.tiles))
    per_block, parts = (2, 2 // shape.words) if fp8 else (1, 4 // shape.words)
    steps = 2 * shape.words  # of a group, 16 columns each

    @T.macro
    def release(thread: Any, behind: int, ring: Any, empty: Any) -> None:
        """The stage `behind` the next one has been read."""
        if thread % 32 == 0:
            T.mbarrier_arrive(empty[T.if_then_else(ring[0] < behind, ring[0] + shape.stages, ring[0]) - behind])

    @T.macro
    def multiply(thread: Any, acc: Any, ring: Any, full: Any, empty: Any, shared: Any, descriptor: Any) -> None:
        words = T.alloc_local((shape.tiles * 8,), "int32")
        factors = T.alloc_local((shape.tiles * 2,), "int32")
        operands = T.alloc_local((shape.tiles * steps * 4,), "uint32")
        stage = T.alloc_local((2,), "int32")  # slot, quad's slot
        for i in T.unroll(3):
            ring[i] = T.shfl_sync(ring[i], 0)  # the same in all lanes, which the compiler has to know
        T.call_extern("void", f"moe_clear<{shape.tiles * per_tile}>", T.address_of(acc[0]))
        for step in T.serial(shape.blocks * per_block):
            if step % (4 * per_block) == 0:
                stage[1] = ring[2]
                ring[2] = T.if_then_else(ring[2] == shape.stages - 1, 0, ring[2] + 1)
            T.mbarrier_wait_parity(full[ring[0]], ring[1])
            stage[0] = ring[0]
            ring[0] += 1
            if ring[0] == shape.stages:
                ring[0] = 0
                ring[1] ^= 1
            load(step // per_block, stage[0], stage[1], thread // 128, thread, shared, words, factors)
            for part in tuple(range(parts)):
                for tile in tiles:
                    T.warpgroup_wait(shape.tiles - 1)
                    if part == 0 and tile == shape.tiles - 1:  # noqa: SIM102 - known while compiling
                        if step > 0:
                            release(thread, 2, ring, empty)
                    decode(part, tile, tile * steps * 4, words, factors, operands)
                    T.warpgroup_fence_operand(acc, num_regs=shape.tiles * per_tile)
                    T.warpgroup_arrive()
                    for j in T.unroll(steps):
                        T.ptx_wgmma_rs(
                            "float32",
                            f"m64n{columns}k16",
                            True,
                            "bf16",
                            "bf16",
                            "fp32",
                            operands.data,
                            tile * steps * 4 + j * 4,
                            descriptor.data,
                            (
                                stage[0] * shape.x_bytes
                                + part * steps // 4 * shape.panel_bytes
                                + (part * steps % 4 + j) * 32
                            )
                            >> 4,
                            acc.data,
                            tile * per_tile,
                            1,
                            1,
                            1,
                        )
                    T.warpgroup_commit_batch()
        T.warpgroup_wait(0)
        T.warpgroup_fence_operand(acc, num_regs=shape.tiles * per_tile)
        release(thread, 1, ring, empty)

    return multiply
