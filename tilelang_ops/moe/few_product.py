"""The product under the experts' kernels for few rows: weight rows in tiles of 16 times at most 8 activation rows.

A block's warps share K: warp w takes steps w, w + warps, ... Packed words go from global memory straight into
registers, those of the next unit of work while this one's are multiplied (mma.sync, so that decoding is shared by the
rows), and the warps' sums are added in order through shared memory. The activation rows lie in shared memory, in
operand order.
"""

from dataclasses import dataclass
from typing import Any

import tilelang.language as T

from tilelang_ops.moe.warp_words import PAIRED, RESTORE, factor_shift
from tilelang_ops.numeric.group32 import quantize_lane

FEW_ROWS = 8  # activation rows of a tile: the columns of mma.sync
STEP = 128  # columns of K that a warp does at a time; FP8: half of them


@dataclass(frozen=True)
class FewShape:
    """Static facts of a product.

    Attributes:
        k: columns of the weights, a multiple of 32.
        warps: of a block.
        row_tiles: tiles of 16 weight rows that a warp does together.
        num_out: weight rows of a matrix.
        units: units of work of a matrix.
    """

    k: int
    warps: int
    row_tiles: int
    num_out: int
    units: int

    @property
    def threads(self) -> int:
        return self.warps * 32

    @property
    def rounds(self) -> int:
        """Steps of a warp."""
        return -(-self.k // (STEP * self.warps))

    @property
    def has_tail(self) -> bool:
        """Whether some steps have columns beyond K."""
        return self.k % (STEP * self.warps) != 0

    @property
    def chunks(self) -> int:
        """Pieces of eight activation columns, those beyond K included, which are zeros."""
        return self.rounds * self.warps * STEP // 8

    @property
    def sums(self) -> int:
        """Partial sums of a unit, a warp."""
        return self.row_tiles * 128


def _chunk_place(chunk: Any, row: Any, fp8: bool) -> Any:
    """First element of eight activation columns in shared memory: a warp's operands are 512 bytes in a row."""
    if fp8:
        sub, part = chunk // 8 * 2 + chunk % 2, chunk // 2 % 4
    else:
        sub, part = chunk // 16 * 4 + chunk % 4, chunk // 4 % 4
    return ((sub * FEW_ROWS + row) * 4 + part) * 8


def _fill_rows(shape: FewShape, fp8: bool) -> Any:
    """Macro: rows of the tile, through Q8/32 and in operand order, to shared memory."""

    @T.macro
    def fill(thread: Any, count: Any, x: Any, x_rows: Any, rows: Any) -> None:
        values = T.alloc_local((8,), "bfloat16")
        codes = T.alloc_local((8,), "float8_e4m3fn")
        result = T.alloc_local((8,), "bfloat16")
        scale = T.alloc_local((1,), "int32")
        for row in T.serial(count):
            for i in T.serial(-(-shape.chunks // shape.threads)):
                chunk = i * shape.threads + thread
                for v in T.unroll(8):
                    values[v] = T.Cast("bfloat16", 0)
                if chunk < shape.k // 8:
                    for v in T.vectorized(8):
                        values[v] = x[x_rows[row], chunk * 8 + v]
                quantize_lane(values, codes, result, scale, True)
                if chunk < shape.chunks:
                    for v in tuple(range(8)):
                        values[v] = result[PAIRED[v]]
                    for v in T.vectorized(8):
                        rows[_chunk_place(chunk, row, fp8) + v] = values[v]

    return fill


def _load_step(shape: FewShape, stacks: tuple[tuple[Any, Any], ...], fp8: bool) -> Any:
    """Macro: words and scale bytes of round `s`, the one `ahead` of the unit, into registers; zeros beyond K.

    Stack h is that of a lane's weight row h: tile t has rows 2t (low half) and 2t + 1 (high half). `places` int64 are
    where words and scales of the lane's row begin.
    """
    num, groups = shape.row_tiles * 2, 2 if fp8 else 4

    @T.macro
    def load(s: Any, ahead: Any, warp: Any, lane: Any, places: Any, words: Any, factors: Any) -> None:
        step = ahead * shape.warps
        for h in tuple(range(num)):
            at = s * num + h
            if shape.has_tail:
                factors[at] = 0
                for v in T.vectorized(4):
                    words[at * 4 + v] = 0
                if (step + warp) * groups + (lane % 4 // 2 if fp8 else lane % 4) < shape.k // 32:
                    _load_group(stacks[h], places, h, step, groups, words, factors, at)
            else:
                _load_group(stacks[h], places, h, step, groups, words, factors, at)

    return load


@T.macro
def _load_group(stack: Any, places: Any, h: int, step: Any, groups: int, words: Any, factors: Any, at: Any) -> None:
    T.call_extern("void", "moe_load16", T.address_of(words[at * 4]), T.address_of(stack[0][places[h * 2] + step * 16]))
    factors[at] = T.call_extern("int32", "moe_load_byte", T.address_of(stack[1][places[h * 2 + 1] + step * groups]))


def _find_rows(shape: FewShape, fp8: bool, row_of: Any) -> Any:
    """Macro: `places` of a unit: where words and scales of a lane's weight rows begin."""
    k, num_out = shape.k, shape.num_out
    per_word, groups = (4, 2) if fp8 else (8, 4)

    @T.macro
    def find(unit: Any, warp: Any, lane: Any, expert: Any, places: Any) -> None:
        for h in tuple(range(shape.row_tiles * 2)):
            row = row_of(unit, lane, h)
            words = T.Cast("int64", expert) * (num_out * (k // per_word)) + row * (k // per_word)
            places[h * 2] = words + warp * 16 + lane % 4 * 4
            rows = -(-num_out // 32) if fp8 else num_out
            scales = T.Cast("int64", expert) * (rows * (k // 32)) + (row // 32 if fp8 else row) * (k // 32)
            places[h * 2 + 1] = scales + warp * groups + (lane % 4 // 2 if fp8 else lane % 4)

    return find


def _multiply_step(shape: FewShape, fp8: bool) -> Any:
    """Macro: one step's words, decoded, times the activation rows, added to `acc`."""
    num, subs = shape.row_tiles * 2, 2 if fp8 else 4

    @T.macro
    def multiply(
        s: Any, step: Any, lane: Any, count: Any, words: Any, factors: Any, rows: Any, operand: Any, acc: Any
    ) -> None:
        for h in T.unroll(num):
            factors[s * num + h] = T.call_extern("int32", "moe_factor", factors[s * num + h], factor_shift(fp8))
        for sub in T.unroll(subs):
            if lane // 4 < count:
                T.call_extern(
                    "void",
                    "moe_copy16",
                    T.address_of(operand[0]),
                    T.address_of(rows[((step * subs + sub) * 32 + lane) * 8]),
                )
            for tile in T.unroll(shape.row_tiles):
                low = s * num + tile * 2
                if fp8:
                    T.call_extern(
                        "void",
                        "moe_mma_e4m3",
                        T.address_of(acc[tile * 4]),
                        T.address_of(words[low * 4 + sub * 2]),
                        T.address_of(words[low * 4 + 4 + sub * 2]),
                        factors[low],
                        factors[low + 1],
                        T.address_of(operand[0]),
                    )
                else:
                    T.call_extern(
                        "void",
                        "moe_mma_e2m1",
                        T.address_of(acc[tile * 4]),
                        words[low * 4 + sub],
                        words[low * 4 + 4 + sub],
                        factors[low],
                        factors[low + 1],
                        T.address_of(operand[0]),
                    )

    return multiply


def few_product(
    shape: FewShape, stacks: tuple[tuple[Any, Any], ...], fp8: bool, tiles: Any, row_of: Any, enter: Any, finish: Any
) -> Any:
    """Macro: a block's units of work, `first` to `last` - 1; unit u is unit u % units of tile u // units.

    Args:
        shape: of the product.
        stacks: (words int32, scales uint8), flat, of the matrix of each weight row of a lane: words [E, N, K/8], scales
            [E, N, K/32]; FP8: words [N, K/4], scales [N/32, K/32].
        fp8: whether the weights are FP8, of the one expert that takes all rows, in twice as many steps.
        tiles: `FewTiles`.
        row_of: (unit of the tile, lane, stack) -> weight row.
        enter: macro (thread, tile, count, x_rows) that a whole block calls before a tile's first unit: fills shared
            x_rows int32 [8].
        finish: macro (place, unit of the tile, tile, count, total) that whole warps call with the sum at a place, in
            total[0]: place of tile t and lane l at t * 128 + l * 4: low weight row times activation rows 2 (l % 4) and
            the next one; high weight row times the same two.
    """
    num = shape.row_tiles * 2
    halves = 2 if fp8 else 1
    units = shape.units
    load, multiply = _load_step(shape, stacks, fp8), _multiply_step(shape, fp8)
    find, fill = _find_rows(shape, fp8, row_of), _fill_rows(shape, fp8)

    @T.macro
    def product(thread: Any, first: Any, last: Any, x: Any, x_rows: Any, rows: Any, sums: Any) -> None:
        words = T.alloc_local((shape.rounds * num * 4,), "int32")
        factors = T.alloc_local((shape.rounds * num,), "int32")
        operand = T.alloc_local((8,), "bfloat16")
        acc = T.alloc_local((shape.row_tiles * 4,), "float32")
        total = T.alloc_local((1,), "float32")
        places = T.alloc_local((num * 2,), "int64")
        tile = T.alloc_local((2,), "int32")  # being multiplied, and in flight
        unit = T.alloc_local((2,), "int32")  # of those tiles
        expert = T.alloc_local((1,), "int32")
        count = T.alloc_local((1,), "int32")
        warp, lane = thread // 32, thread % 32
        if first < last:
            tile[0] = -1
            tile[1] = first // units
            unit[1] = first - tile[1] * units
            expert[0] = 0 if fp8 else tiles.expert_of(tile[1])
            find(unit[1], warp, lane, expert[0], places)
            for v in T.unroll(8):
                operand[v] = T.Cast("bfloat16", 0)
            for s in T.unroll(shape.rounds):
                load(s, s, warp, lane, places, words, factors)
            for i in T.serial(last - first):
                unit[0] = unit[1]
                if tile[0] != tile[1]:
                    tile[0] = tile[1]
                    count[0] = tiles.count(tile[0], fp8)
                    T.sync_threads()
                    enter(thread, tile[0], count[0], x_rows)
                    T.sync_threads()
                    fill(thread, count[0], x, x_rows, rows)
                    T.sync_threads()
                for c in T.unroll(shape.row_tiles * 4):
                    acc[c] = 0.0
                for half in tuple(range(halves)):
                    if half == halves - 1:
                        unit[1] += 1
                        if unit[1] == units:
                            unit[1] = 0
                            tile[1] += 1
                            if not fp8:  # noqa: SIM102 - known while compiling
                                if i + 1 < last - first:
                                    expert[0] = tiles.expert_of(tile[1])
                        find(unit[1], warp, lane, expert[0], places)
                    for s in T.unroll(shape.rounds):
                        step = (half * shape.rounds + s) * shape.warps + warp
                        multiply(s, step, lane, count[0], words, factors, rows, operand, acc)
                        if half < halves - 1:
                            load(s, shape.rounds + s, warp, lane, places, words, factors)
                        else:
                            if i + 1 < last - first:
                                load(s, s, warp, lane, places, words, factors)
                for t in T.unroll(shape.row_tiles):
                    for c in T.vectorized(4):
                        sums[i % 2, warp, t * 128 + lane * 4 + c] = acc[t * 4 + c]
                T.sync_threads()
                for part in tuple(range(-(-shape.row_tiles * 128 // shape.threads))):
                    place = part * shape.threads + thread
                    if place < shape.row_tiles * 128:
                        total[0] = 0.0
                        for w in T.unroll(shape.warps):
                            total[0] += sums[i % 2, w, place]
                        total[0] *= T.float32(2.0**RESTORE)
                        finish(place, unit[0], tile[0], count[0], total)

    return product
