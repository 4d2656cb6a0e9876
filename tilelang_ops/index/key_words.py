"""Packed FP4 index keys as the left operand of a matrix instruction, decoded in registers."""

from typing import Any

import tilelang.language as T

KEYS = 64  # of a group of four warps: the rows of an instruction
FOLD = 63  # powers of two that the queries carry for the keys, see `decode_row`
WORDS_ARCH = "sm_90a"  # of the kernels that take keys so


def takes_words(num_heads: int, dim: int) -> bool:
    """Whether those kernels take so many heads (whole 16-byte parts of weights) and columns (whole words of scales)."""
    return num_heads % 4 == 0 and dim % 128 == 0


def padded_heads(num_heads: int) -> int:
    """Columns of the instruction."""
    return -(-num_heads // 16) * 16


def key_words(dim: int) -> int:
    """32-bit words of a key: dim/8 of codes, dim/128 of scale bytes; dim is a multiple of 128."""
    return dim // 8 + dim // 128


def column_of(place: Any, dim: int) -> Any:
    """Which column of a query stands at a place of the order in which `decode_row` gives the columns of a key.

    Of 16 places of a step, lane t of four has 2t, 2t+1, 2t+8 and 2t+9. Its columns are dim/4 neighbours: in each word
    of eight codes, codes i and i+4 are decoded together.
    """
    step, inside = place // 16, place % 16
    lane, half, odd = inside % 8 // 2, inside // 8, inside % 2
    return lane * (dim // 4) + step // 2 * 8 + step % 2 * 2 + half + 4 * odd


@T.macro
def decode_row(words: Any, scales: Any, pairs: Any, row: int, dim: int) -> None:
    """A lane's quarter of a key to bf16 pairs, exactly: operand registers of one of the instruction's two row halves.

    The bits of an e2m1 code are those of a bf16 number that is 2^-126 of its value. The key's scale makes up for 63
    powers of two, the queries (`arrange_queries`) for the others, so that neither leaves the range of bf16 for scales
    of 2^-62 to 2^64: keys are normed vectors, whose groups of smaller values add nothing to a score.

    Args:
        words: local uint32 [dim/32], codes.
        scales: local uint32 [dim/128]: a scale byte for every four words.
        pairs: local uint32 [dim/16 * 4]: register 4*step + half of row 0, 4*step + 1 + ... of row 8.
        row: 0 or 1, the row half.
        dim: columns of a key.
    """
    one = T.alloc_var("uint32")
    bits = T.alloc_var("uint32")
    exponent = T.alloc_var("int32")
    for n in T.unroll(dim // 32):
        if n % 4 == 0:
            exponent = T.Cast("int32", scales[n // 4])
            exponent = T.if_then_else(exponent == 255, 0x7FC0, T.min(exponent + FOLD, 254) << 7)
            one = T.Cast("uint32", exponent) * T.uint32(0x10001)
        for i in T.unroll(4):
            bits = (shifted(words[n], 12 - 4 * i) & T.uint32(0x80008000)) | (
                shifted(words[n], 6 - 4 * i) & T.uint32(0x01C001C0)
            )
            pairs[(2 * n + i // 2) * 4 + i % 2 * 2 + row] = T.reinterpret(
                T.mul2(T.reinterpret(bits, "bfloat16x2"), T.reinterpret(one, "bfloat16x2")), "uint32"
            )


def shifted(word: Any, places: Any) -> Any:
    """uint32 to the left, or to the right for negative places."""
    return T.if_then_else(
        places >= 0, word << T.Cast("uint32", T.max(places, 0)), word >> T.Cast("uint32", T.max(-places, 0))
    )
