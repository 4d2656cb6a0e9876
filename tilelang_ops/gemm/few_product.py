"""Product of at most eight rows with an FP8 matrix on tensor cores; quantizes the rows itself."""

from dataclasses import dataclass
from typing import Any

import tilelang.language as T

from tilelang_ops.numeric.e8m0 import invert_e8m0
from tilelang_ops.numeric.group32 import COLUMNS_A_LANE, fp8_group32_byte
from tilelang_ops.numeric.rotate import rotated_even, rotated_odd

ROWS = 8  # most rows: the columns of one matrix instruction
OUTPUTS = 16  # of a warp: the rows of one matrix instruction
_LANES = 32
CHUNK = 64  # columns of a step: 16 of each weight row a lane
_AHEAD = 8  # loads of x that a lane has in flight


@dataclass(frozen=True, slots=True)
class FewShape:
    """How `few_product_kernel` cuts its work.

    Attributes:
        tiles: times 16 outputs a block, a divisor of a group's outputs.
        splits: parts of the columns; a block has `tiles * splits` warps.
        depth: steps of 64 columns whose weights are on their way together.
        blocks: of a multiprocessor, at least.
    """

    tiles: int
    splits: int
    depth: int
    blocks: int


def few_product_kernel(
    arch: str,
    num_out: int,
    dim: int,
    num_groups: int,
    rows: int,
    shape: FewShape,
    out_dtype: str,
    head_dim: int,
    rope_dim: int,
) -> Any:
    """``out[t, n] = sum_k Q8/32(x)[t, g(n)*dim + k] * w[n, k]`` with g(n) the group of output n.

    A warp has 16 outputs and a part of the columns. A lane loads 16 bytes of two weight rows a step, several steps
    ahead, and turns them to float16, which holds e4m3 codes exactly. The scales of weights and rows, relative to the
    largest ones, are multiplied onto the codes of the rows: an exact product unless it is 2^-24 of the largest value.
    The columns of a step go through the matrix instructions in an order in which the lane's bytes are its operands.
    The order of a row's sum does not depend on `rows`.

    Args:
        arch: "sm_90a" or "sm_100a"; the code is the same.
        num_out: weight rows N of all groups together, a multiple of 16 a group.
        dim: columns of a group, a multiple of 32.
        num_groups: 1, or the block-diagonal groups.
        rows: most rows of x: 1, 2, 4 or 8.
        shape: how the work is cut.
        out_dtype: "bfloat16" or "float32".
        head_dim: of heads that are rotated back first; 0: x is multiplied as it is.
        rope_dim: columns at a head's end that rotate in pairs, a multiple of 8.
    """
    num_rows = T.dynamic("num_rows")
    tiles, splits, depth = shape.tiles, shape.splits, shape.depth
    threads = _LANES * tiles * splits
    warps, per_group = tiles * splits, num_out // num_groups
    part_dim = -(-dim // (splits * CHUNK)) * CHUNK  # columns of a split
    steps, part_groups, groups = part_dim // CHUNK, part_dim // 32, dim // 32
    whole_dim, stride = splits * part_dim, threads * COLUMNS_A_LANE
    pitch = whole_dim + (CHUNK - whole_dim) % 128  # bytes from a row to the next: no bank conflicts
    turns = -(-whole_dim // stride)
    batch = min(turns, max(1, _AHEAD // rows))  # turns whose rows are loaded together
    ragged, rotated = whole_dim > dim, head_dim > 0

    @T.macro
    def load_rows(values: Any, x: Any, num_rows: Any, group: Any, column: Any) -> None:
        """A lane's columns of `batch` turns of all rows."""
        for turn in T.unroll(batch):
            for t in T.unroll(rows):
                for i in T.unroll(COLUMNS_A_LANE):
                    values[turn, t, i] = T.Cast("bfloat16", 0)
                if column + turn * stride < dim and t < num_rows:
                    for i in T.vectorized(COLUMNS_A_LANE):
                        values[turn, t, i] = x[t, group * dim + column + turn * stride + i]

    @T.macro
    def rotate(values: Any, cos: Any, sin: Any, row: Any, column: Any, num_rows: Any) -> None:
        """Inverse RoPE of eight columns of a head."""
        pair = T.alloc_local((2,), "float32")
        tail = column % head_dim - (head_dim - rope_dim)
        if tail >= 0 and column < dim and row < num_rows:
            for i in T.unroll(COLUMNS_A_LANE // 2):
                pair[0] = T.Cast("float32", values[2 * i])
                pair[1] = T.Cast("float32", values[2 * i + 1])
                c, s = cos[row, tail // 2 + i], -sin[row, tail // 2 + i]
                values[2 * i] = T.Cast("bfloat16", rotated_even(pair[0], pair[1], c, s))
                values[2 * i + 1] = T.Cast("bfloat16", rotated_odd(pair[0], pair[1], c, s))

    @T.macro
    def quantize(values: Any, x_codes: Any, x_scales: Any, largest: Any, t: Any, column: Any) -> None:
        """Eight columns of row t into shared memory; `largest` follows the row's scales."""
        codes = T.alloc_local((COLUMNS_A_LANE,), "float8_e4m3fn")
        scale = T.alloc_var("int32")
        scale = fp8_group32_byte(values)
        for i in T.vectorized(COLUMNS_A_LANE):
            codes[i] = T.Cast("float8_e4m3fn", T.Cast("float32", values[i]) * invert_e8m0(scale))
        if column < whole_dim:
            for i in T.vectorized(COLUMNS_A_LANE):
                x_codes[t, column + i] = codes[i]
            if column % 32 == 0:
                x_scales[t, column // 32] = T.Cast("uint8", scale)
        if column < dim:
            largest[t] = T.max(largest[t], scale)

    @T.macro
    def add_up(total: Any, sums: Any, out: Any, num_rows: Any, first: Any, thread: Any) -> None:
        """Joins the splits in order, and stores."""
        final = T.alloc_var("float32")
        for e, half in T.grid(2, 2):
            sums[thread // _LANES, thread % _LANES // 4 + 8 * half, thread % 4 * 2 + e] = total[half * 2 + e]
        T.sync_threads()
        for i in T.unroll(-(-tiles * OUTPUTS * rows // threads)):
            place = i * threads + thread
            if place < tiles * OUTPUTS * rows:
                output, t = place % (tiles * OUTPUTS), place // (tiles * OUTPUTS)
                final = sums[output // OUTPUTS * splits, output % OUTPUTS, t]
                for part in T.unroll(1, splits):
                    final = final + sums[output // OUTPUTS * splits + part, output % OUTPUTS, t]
                if t < num_rows:
                    out[t, first + output] = T.Cast(out.dtype, final)

    @T.prim_func
    def few_product(
        x: T.Tensor((num_rows, num_groups * dim), "bfloat16"),
        cos: T.Tensor((num_rows, rope_dim // 2) if rotated else (1, 1), "float32"),
        sin: T.Tensor((num_rows, rope_dim // 2) if rotated else (1, 1), "float32"),
        weights: T.Tensor((num_out, dim), "float8_e4m3fn"),
        scales: T.Tensor((-(-num_out // 32), groups), "uint8"),
        out: T.Tensor((num_rows, num_out), out_dtype),
    ):
        with T.Kernel(num_out // (OUTPUTS * tiles), threads=threads) as block:
            T.annotate_min_blocks_per_sm(shape.blocks)
            x_codes = T.alloc_shared((rows, pitch), "float8_e4m3fn")
            x_scales = T.alloc_shared((rows, splits * part_groups), "uint8")
            w_scales = T.alloc_shared((warps, part_groups), "uint8")
            largest_of_warp = T.alloc_shared((warps, rows), "int32")
            sums = T.alloc_shared((warps, OUTPUTS, ROWS + 1), "float32")
            total = T.alloc_local((4,), "float32")
            thread = T.get_thread_binding()
            lane, warp = thread % _LANES, thread // _LANES
            tile, split = warp // splits, warp % splits
            column_of_lane = split * part_dim + lane % 4 * 16
            codes = T.alloc_local((depth, 2, 16), "float8_e4m3fn")
            a = T.alloc_local((32,), "float16")
            v_codes = T.alloc_local((16,), "float8_e4m3fn")
            v = T.alloc_local((16,), "float16")
            values = T.alloc_local((batch, rows, COLUMNS_A_LANE), "bfloat16")
            lane_values = T.alloc_local((COLUMNS_A_LANE,), "bfloat16")
            largest = T.alloc_local((rows,), "int32")
            w_largest = T.alloc_var("int32")
            x_largest = T.alloc_var("int32")
            exponent = T.alloc_var("int32")
            factor = T.alloc_var("float16")
            first = (block * tiles + tile) * OUTPUTS
            group = first // per_group
            row_of_lane = first + lane // 4
            for i in T.unroll(4):
                total[i] = 0.0
            if ragged:  # what is not loaded must be finite
                for q, half, i in T.grid(depth, 2, 16):
                    codes[q, half, i] = T.Cast("float8_e4m3fn", 0.0)
            for q in T.unroll(min(depth, steps)):
                if column_of_lane + q * CHUNK < dim:
                    for half in T.unroll(2):
                        for i in T.vectorized(16):
                            codes[q, half, i] = weights[row_of_lane + half * 8, column_of_lane + q * CHUNK + i]
            w_largest = 0
            for i in T.unroll(-(-part_groups // _LANES)):
                place = i * _LANES + lane
                if place < part_groups:
                    exponent = 0
                    if split * part_groups + place < groups:
                        exponent = T.Cast("int32", scales[first // 32, split * part_groups + place])
                    w_scales[warp, place] = T.Cast("uint8", exponent)
                    w_largest = T.max(w_largest, exponent)
            w_largest = T.warp_reduce_max(w_largest)
            for t in T.unroll(rows):
                largest[t] = 0
            for start in tuple(range(0, turns, batch)):
                load_rows(values, x, num_rows, group, start * stride + thread * COLUMNS_A_LANE)
                for turn in T.unroll(min(batch, turns - start)):
                    column = (start + turn) * stride + thread * COLUMNS_A_LANE
                    for t in T.unroll(rows):
                        for i in T.unroll(COLUMNS_A_LANE):
                            lane_values[i] = values[turn, t, i]
                        if rotated:
                            rotate(lane_values, cos, sin, t, column, num_rows)
                        quantize(lane_values, x_codes, x_scales, largest, t, column)
            for t in T.unroll(rows):
                largest[t] = T.warp_reduce_max(largest[t])
                if lane == 0:
                    largest_of_warp[warp, t] = largest[t]
            T.sync_threads()
            x_largest = 0
            if lane // 4 < rows:
                for i in T.unroll(warps):
                    x_largest = T.max(x_largest, largest_of_warp[i, lane // 4])
            for s in T.serial(-(-steps // depth)):
                for q in T.unroll(depth):
                    step = s * depth + q
                    if step < steps:
                        for i in T.unroll(16):
                            v[i] = T.Cast("float16", 0)
                        for i, pair, half in T.grid(4, 2, 2):
                            for e in T.vectorized(2):
                                a[i * 8 + pair * 4 + half * 2 + e] = T.Cast(
                                    "float16", codes[q, half, 4 * i + pair * 2 + e]
                                )
                        if lane // 4 < rows:
                            exponent = T.Cast("int32", w_scales[warp, step * 2 + lane % 4 // 2]) - w_largest
                            exponent = (
                                exponent
                                - x_largest
                                + T.Cast("int32", x_scales[lane // 4, split * part_groups + step * 2 + lane % 4 // 2])
                            )
                            factor = T.Cast("float16", T.reinterpret(T.max(exponent + 127, 0) << 23, "float32"))
                            for i in T.vectorized(16):
                                v_codes[i] = x_codes[lane // 4, column_of_lane + step * CHUNK + i]
                            for i in T.vectorized(16):
                                v[i] = T.Cast("float16", v_codes[i]) * factor
                        for i in T.unroll(4):
                            T.ptx_mma(
                                "float32",
                                "m16n8k16",
                                "row",
                                "col",
                                "fp16",
                                "fp16",
                                "fp32",
                                a.data,
                                8 * i,
                                v.data,
                                4 * i,
                                total.data,
                                0,
                                T.bool(False),
                            )
                        if step + depth < steps and column_of_lane + (step + depth) * CHUNK < dim:
                            for half in T.unroll(2):
                                for i in T.vectorized(16):
                                    codes[q, half, i] = weights[
                                        row_of_lane + half * 8, column_of_lane + (step + depth) * CHUNK + i
                                    ]
            for e in T.unroll(2):
                exponent = 0
                if lane % 4 * 2 + e < rows:
                    for i in T.unroll(warps):
                        exponent = T.max(exponent, largest_of_warp[i, lane % 4 * 2 + e])
                for half in T.unroll(2):
                    total[half * 2 + e] = total[half * 2 + e] * (
                        T.reinterpret(exponent << 23, "float32") * T.reinterpret(w_largest << 23, "float32")
                    )
            add_up(total, sums, out, num_rows, block * tiles * OUTPUTS, thread)

    return few_product
