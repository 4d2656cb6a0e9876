"""Dot products of a few activation rows with a few weight rows in one warp, straight from packed weights.

A lane takes groups of 32 columns: one or two 16-byte loads and one scale byte per weight row, all in flight together.
Weights are read once for all rows of the tile; a row's sum does not depend on the other rows.
"""

from typing import Any

import tilelang.language as T

from tilelang_ops.moe.weight_words import DOT_SCALE, dot_words, words_per_group
from tilelang_ops.numeric.e8m0 import decode_e8m0


def row_dots(k: int, fp8: bool, tile_rows: int, stacks: tuple[tuple[Any, Any, int], ...]) -> Any:
    """Macro: sums[r * len(stacks) + s] = x row r . weight row s, the same in all lanes.

    Args:
        k: columns, a multiple of 32.
        fp8: format of the weights.
        tile_rows: activation rows at most.
        stacks: (words, scales, offset) of each weight row wanted: row `first_row + offset` of that matrix.
    """
    per_group, num = words_per_group(fp8), len(stacks)
    indices = tuple(enumerate(stacks))

    @T.macro
    def dots(
        lane: Any,
        expert: Any,
        first_row: Any,
        num_out: Any,
        count: Any,
        x: Any,
        x_rows: Any,
        words: Any,
        scales: Any,
        values: Any,
        partial: Any,
        sums: Any,
    ) -> None:
        for i in T.unroll(tile_rows * num):
            sums[i] = 0.0
        for step in T.unroll(T.ceildiv(k // 32, 32), unroll_factor=1):  # loads of one step are enough in flight
            group = step * 32 + lane
            if group < k // 32:
                for s, (stack, stack_scales, offset) in indices:
                    row = T.min(first_row + offset, num_out - 1)
                    for quad in tuple(range(per_group // 4)):
                        for j in T.vectorized(4):
                            words[s * per_group + quad * 4 + j] = stack[expert, row, group * per_group + quad * 4 + j]
                    scales[s] = decode_e8m0(stack_scales[expert, row // 32 if fp8 else row, group])
                for i in T.unroll(tile_rows * num):
                    partial[i] = 0.0
                # Columns outside, rows inside: eight codes of each weight row are decoded once for all rows.
                for part in T.unroll(4):
                    for r in T.unroll(tile_rows):
                        if r < count:
                            for v in T.vectorized(8):
                                values[v] = x[x_rows[r], group * 32 + part * 8 + v]
                            for s in T.unroll(num):
                                first = s * per_group + part * (per_group // 4)
                                partial[r * num + s] = dot_words(words, first, values, partial[r * num + s], fp8)
                for i in T.unroll(tile_rows * num):
                    sums[i] += partial[i] * scales[i % num]
        for r in T.unroll(tile_rows):
            if r < count:
                for s in T.unroll(num):
                    sums[r * num + s] = T.warp_reduce_sum(sums[r * num + s]) * T.float32(DOT_SCALE[fp8])

    return dots
