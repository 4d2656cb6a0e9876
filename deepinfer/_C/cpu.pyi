"""Native CPU kernels. Built from csrc/cpu.

Ops take tensors as addresses (`data_ptr()`) of contiguous memory on the CPU, 0 for none; what each of them holds is
said in csrc/cpu/ops/<op>.hpp. Nothing is checked: `deepinfer.ops.cpu` is the way to call them.
"""

from collections.abc import Sequence

class Context:
    """Threads and kernels of one engine's CPU ops.

    Args:
        num_threads: threads in all, the caller's included, 1 .. 1024.
        isa: "auto" (the widest this machine can run), "scalar", "avx2" or "avx512". Results are equal on all of them.

    Raises ValueError for another value, or an instruction set that this machine cannot run.
    """

    def __init__(self, num_threads: int, isa: str = "auto") -> None: ...
    @property
    def num_threads(self) -> int: ...
    @property
    def isa(self) -> str: ...

class WeightStack:
    """Equal matrices one behind the other, where they lie in memory; the caller keeps that memory alive.

    Args:
        format: "f32", "bf16", "fp8_block32" or "fp4_row32" (`deepinfer.core.quantized_weight.WeightFormat`).
        data: address of the values or codes [count, num_out, num_in], contiguous.
        scales: address of the scale bytes of all matrices, 0 for formats without.
        count: matrices.
        num_out: rows of one.
        num_in: columns of one.

    Raises ValueError for another format.
    """

    def __init__(self, *, format: str, data: int, scales: int, count: int, num_out: int, num_in: int) -> None: ...

def matmul(
    context: Context,
    *,
    x: int,
    weight: WeightStack,
    out: int,
    num_rows: int,
    num_groups: int,
    quantizes_x: bool,
) -> None:
    """x f32 [num_rows, num_groups, num_in] -> out f32 [num_rows, num_out], by the first matrix of `weight`."""

def moe(
    context: Context,
    *,
    x: int,
    ids: int,
    weights: int,
    w1: WeightStack,
    w3: WeightStack,
    w2: WeightStack,
    shared_w1: WeightStack,
    shared_w3: WeightStack,
    shared_w2: WeightStack,
    out: int,
    num_rows: int,
    top_k: int,
    limit: float,
    quantizes: bool,
    rounds_bf16: bool,
) -> None:
    """x f32 [num_rows, dim], ids int64 and weights f32 [num_rows, top_k] -> out f32 [num_rows, dim].

    Raises IndexError when an id is no expert.
    """

def round_vectors(context: Context, *, x: int, out: int, num_rows: int, dim: int, rounding: str) -> None:
    """x f32 [num_rows, dim] -> out f32 [num_rows, dim]; `rounding` is a value of `KVRounding`."""

def encode_vectors(context: Context, *, x: int, out: int, num_rows: int, dim: int, rounding: str) -> None:
    """x f32 [num_rows, dim] -> out uint8 [num_rows, packed bytes]."""

def decode_vectors(context: Context, *, data: int, out: int, num_rows: int, dim: int, rounding: str) -> None:
    """data uint8 [num_rows, packed bytes] -> out f32 [num_rows, dim]."""

class DrawRow:
    """How one row's token is drawn.

    Args:
        temperature: at most 1e30, > 0.
        min_weight: int(min_p * 2^40).
        top_p: 1: no limit.
        top_k: 0: no limit.
        word: 64 random bits.
    """

    def __init__(self, *, temperature: float, min_weight: int, top_p: float, top_k: int, word: int) -> None: ...

def apply_rope(
    context: Context,
    *,
    x: int,
    cos: int,
    sin: int,
    out: int,
    num_rows: int,
    num_heads: int,
    dim: int,
    rotated: int,
    inverse: bool,
    rounds_bf16: bool,
) -> None: ...
def compress_pairs(context: Context, *, pairs: int, out: int, num_pairs: int, dim: int) -> None: ...
def route(
    context: Context,
    *,
    logits: int,
    bias: int,
    ids: int,
    weights: int,
    margin: int,
    num_rows: int,
    num_experts: int,
    top_k: int,
    scaling: float,
    normalizes: bool,
) -> None: ...
def sparse_attention(
    context: Context,
    *,
    q: int,
    window: int,
    window_index: int,
    entries: int,
    picks: int,
    sink: int,
    out: int,
    num_rows: int,
    num_heads: int,
    dim: int,
    window_size: int,
    num_picks: int,
    scale: float,
    rounds_bf16: bool,
) -> None: ...
def engram_gate(
    context: Context,
    *,
    streams: int,
    keys: int,
    value: int,
    q_weight: int,
    k_weight: int,
    out: int,
    num_rows: int,
    num_streams: int,
    dim: int,
    eps: float,
    dot_scale: float,
    rounds_bf16: bool,
) -> None: ...
def engram_lookup(
    context: Context, *, rows: int, codes: int, scales: int, out: int, num_rows: int, dim: int
) -> None: ...
def ngram_rows(
    context: Context,
    *,
    ids: int,
    multipliers: int,
    primes: int,
    offsets: int,
    rows: int,
    num_tokens: int,
    n: int,
    num_heads: int,
) -> None: ...
def rms_norm(
    context: Context, *, x: int, weight: int, out: int, num_rows: int, dim: int, eps: float, rounds_bf16: bool
) -> None: ...
def embed_rows(
    context: Context,
    *,
    table: int,
    tokens: int,
    out: int,
    num_rows: int,
    num_streams: int,
    dim: int,
    table_is_bf16: bool,
    rounds_bf16: bool,
) -> None: ...
def hc_mix(
    context: Context,
    *,
    streams: int,
    fn: int,
    base: int,
    scale: int,
    pre: int,
    post: int,
    comb: int,
    num_rows: int,
    num_streams: int,
    dim: int,
    sinkhorn_iters: int,
    eps: float,
    norm_eps: float,
) -> None: ...
def hc_read(
    context: Context,
    *,
    streams: int,
    pre: int,
    norm_weight: int,
    out: int,
    num_rows: int,
    num_streams: int,
    dim: int,
    eps: float,
    norms: bool,
    rounds_bf16: bool,
) -> None: ...
def hc_write(
    context: Context,
    *,
    streams: int,
    out: int,
    post: int,
    comb: int,
    new_streams: int,
    num_rows: int,
    num_streams: int,
    dim: int,
    rounds_bf16: bool,
) -> None: ...
def stream_mean(
    context: Context, *, streams: int, out: int, num_rows: int, num_streams: int, dim: int, rounds_bf16: bool
) -> None: ...
def argmax_rows(
    context: Context, *, logits: int, tokens: int, is_finite: int, num_rows: int, num_ids: int, stride: int
) -> None: ...
def draw_rows(
    context: Context, *, logits: int, rows: Sequence[DrawRow], tokens: int, logprobs: int, num_ids: int, stride: int
) -> None: ...
def score_tokens(
    context: Context,
    *,
    logits: int,
    tokens: int,
    logprobs: int,
    ranks: int,
    num_rows: int,
    num_logits: int,
    num_ids: int,
    stride: int,
) -> None: ...
def index_scores(
    context: Context,
    *,
    q: int,
    head_weights: int,
    keys: int,
    row_group: int,
    num_visible: int,
    out: int,
    num_rows: int,
    num_heads: int,
    dim: int,
    num_groups: int,
    num_entries: int,
    scale: float,
    rounds_bf16: bool,
) -> None: ...
def restrict_to_blocks(
    context: Context,
    *,
    scores: int,
    blocks: int,
    out: int,
    num_rows: int,
    num_entries: int,
    num_blocks: int,
    block_size: int,
) -> None: ...
def select_blocks(
    context: Context,
    *,
    scores: int,
    num_visible: int,
    blocks: int,
    num_rows: int,
    num_entries: int,
    block_size: int,
    num_blocks: int,
) -> None: ...
def select_topk(context: Context, *, scores: int, picks: int, num_rows: int, num_entries: int, k: int) -> None: ...
