"""What one row is sampled with: seven 64-bit words, and the random words that follow from them."""

from __future__ import annotations

import triton.language as tl

from tilelang_ops.jit.triton_jit import triton_jit

# Fields of a rule int64 [7].
NUM_FIELDS = 7
FIELD_PLACES = 8  # of a vector over them
SEED = tl.constexpr(0)
PROMPT_HASH = tl.constexpr(1)
INDEX = tl.constexpr(2)  # of the output token
TEMPERATURE = tl.constexpr(3)  # bits of a float32; 0: the row takes the argmax
MIN_WEIGHT = tl.constexpr(4)  # min_p in units of 2^-40
TOP_P = tl.constexpr(5)  # bits of a float64
TOP_K = tl.constexpr(6)  # 0: all

# Streams of random words; the values are those of the sampler's purposes.
SAMPLE = 0
RESIDUAL = 1
ACCEPT = 2
DRAFT = 3
_LANE_STRIDE = 256


def stream(purpose: int, lane: int = 0) -> int:
    """Second counter word of a purpose, and of a draft's place in its block."""
    return purpose + lane * _LANE_STRIDE


@triton_jit
def field(rules, row, place: tl.constexpr):
    """One word of a row's rule, int64."""
    return tl.load(rules + row * 7 + place)


@triton_jit
def temperature_of(rules, row):
    """float32; 0 for a row that takes the argmax."""
    return field(rules, row, TEMPERATURE).to(tl.int32).to(tl.float32, bitcast=True)


@triton_jit
def random_word(rules, row, index_offset, stream_word):
    """uint64: Philox4x32-10 (Salmon et al. 2011) of the seed at (index, stream, low and high half of the prompt hash).

    index_offset is added to the rule's output index.
    """
    prompt_hash = field(rules, row, PROMPT_HASH).to(tl.uint64, bitcast=True)
    seed = field(rules, row, SEED).to(tl.uint64, bitcast=True)
    index = (field(rules, row, INDEX) + index_offset).to(tl.uint32)
    low, high, _, _ = tl.philox(
        seed,
        index,
        tl.full((), stream_word, tl.uint32),
        (prompt_hash & 0xFFFFFFFF).to(tl.uint32),
        (prompt_hash >> 32).to(tl.uint32),
    )
    return low.to(tl.uint64) | (high.to(tl.uint64) << 32)


@triton_jit
def has_filter(rules, row, num_ids):
    """Whether top-p or top-k may leave tokens out."""
    top_p = field(rules, row, TOP_P).to(tl.float64, bitcast=True)
    top_k = field(rules, row, TOP_K)
    return (top_p < 1.0) | ((top_k > 0) & (top_k < num_ids))
