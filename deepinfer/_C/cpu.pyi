"""Native CPU kernels. Built from csrc/cpu.

Ops take tensors as addresses (`data_ptr()`) of contiguous memory on the CPU, 0 for none; what each of them holds is
said in csrc/cpu/ops/<op>.hpp. Nothing is checked: `deepinfer.ops.cpu` is the way to call them.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from deepinfer._C import StepPlan
from deepinfer.core.step_plan import ForwardPlan

class Context:
    """Threads and kernels of one engine's CPU ops.

    Args:
        num_threads: threads in all, the caller's included, 1 .. 1024.
        isa: "auto" (the widest this machine can run), "scalar", "avx2", "avx512" or "avx512_bf16". Results are equal on
            all of them.

    Raises ValueError for another value, or an instruction set that this machine cannot run.
    """

    def __init__(self, num_threads: int, isa: str = "auto") -> None: ...
    @property
    def num_threads(self) -> int: ...
    @property
    def isa(self) -> str: ...
    def start_trace(self, capacity: int) -> None:
        """From now on note when ops and native calls begin and end, up to `capacity` of them (32 bytes each)."""
    def stop_trace(self) -> list[tuple[str, bool, int, int]]:
        """What was noted, in the order of the ends: name, whether it is a native call (else an op), begin and end in
        nanoseconds of `time.perf_counter_ns`.
        """
    @property
    def num_lost_events(self) -> int:
        """Events that found no place in the last recording."""
    def measure_limits(self) -> tuple[float, float]:
        """What this machine gives all threads now: bytes read per second from memory that no cache holds (256 MiB), and
        float32 multiply-adds per second on registers (0 with the instruction set "scalar"). Takes about a second.
        """

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
    shared_w1: WeightStack | None,
    shared_w3: WeightStack | None,
    shared_w2: WeightStack | None,
    out: int,
    num_rows: int,
    top_k: int,
    limit: float,
    quantizes: bool,
    rounds_bf16: bool,
) -> None:
    """x f32 [num_rows, dim], ids int64 and weights f32 [num_rows, top_k] -> out f32 [num_rows, dim]. Without a shared
    expert all three are None; with one, top_k may be 0.

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

class LayerRole:
    """What one target layer does; see `LayerPlan`. Layers are numbers, -1 for none.

    Attributes:
        draft_target: place of the layer's streams among the draft model's features.
        is_boundary: first layer with ratio 1.
    """

    ratio: int
    kv_source: int
    index_source: int
    owns_kv: bool
    owns_index: bool
    is_candidate_source: bool
    uses_candidates: bool
    has_engram: bool
    draft_target: int
    is_boundary: bool

class ModelConfig:
    """Sizes and flags of a model; fields as csrc/cpu/model/model_config.hpp describes them."""

    vocab_size: int
    hidden_size: int
    max_positions: int
    num_streams: int
    sinkhorn_iters: int
    hc_eps: float
    norm_eps: float
    num_heads: int
    head_dim: int
    rope_dim: int
    q_lora_rank: int
    o_lora_rank: int
    o_groups: int
    window: int
    softmax_scale: float
    index_heads: int
    index_dim: int
    index_topk: int
    index_scale: float
    candidate_blocks: int
    candidate_block_size: int
    num_experts: int
    num_picked: int
    intermediate_size: int
    normalizes_weights: bool
    routed_scaling: float
    swiglu_limit: float
    ngram_pad: int
    num_ngrams: int
    engram_heads: int
    engram_dim: int
    engram_scale: float
    num_draft_stages: int
    num_draft_experts: int
    num_draft_picked: int
    markov_rank: int
    noise_token_id: int
    rounds_bf16: bool
    quantizes: bool
    yoco: str  # "off", "mask" or "compact"; can be set only
    layers: list[LayerRole]  # a copy: set it as a whole

class TensorTable:
    """Where the tensors of a loaded model lie, by name; whoever owns them keeps them alive."""

    def add(self, name: str, address: int, type: str, shape: list[int]) -> None:
        """Enter a contiguous tensor; type: "float32", "bfloat16", "int64" or "byte" (anything of one byte)."""

class VectorFormat:
    """How vectors of a cache are rounded and stored; `rounding` is a value of `KVRounding`."""

    def __init__(self, dim: int, rounding: str, packed: bool) -> None: ...
    @property
    def num_bytes(self) -> int: ...

class Caches:
    """Where the caches of an engine lie; whoever owns them keeps them alive. `units`: units and entries of each."""

    def add_vectors(self, kind: str, layer: int, address: int, units: tuple[int, int], format: VectorFormat) -> None:
        """Enter a cache; kind: "main", "index" or "window"."""

    def add_states(self, layer: int, address: int, units: tuple[int, int], dim: int) -> None:
        """Enter a compressor's rings, float32 [slots, ring, 2, dim]."""

class RowSampler:
    """Greedy and filtered draws from logits that nothing changes, bit-equal to `deepinfer.sampling`.

    Args:
        num_ids: ids that may be drawn, the first ones of a row.
    """

    def __init__(self, num_ids: int) -> None: ...
    def add_greedy(self, seq_id: int, *, plain_from: int | None, stop_ids: Sequence[int]) -> None:
        """Make a greedy sequence known.

        plain_from: output index from which on nothing but the logits decides its tokens; None: never.
        stop_ids: tokens that end its text.
        """

    def add(
        self,
        seq_id: int,
        key: tuple[int, int],
        *,
        temperature: float,
        min_weight: int,
        top_p: float,
        top_k: int,
        plain_from: int | None,
        stop_ids: Sequence[int],
    ) -> None:
        """Make a sequence known; key: seed and prompt hash; min_weight: min_p in units of 2^-40; top_k 0: no limit;
        the rest as in `add_greedy`.
        """

    def remove(self, seq_id: int) -> None:
        """Forget a sequence; unknown ones are ignored."""

    def sample(
        self, context: Context, logits: NDArray[np.float32], seq_ids: Sequence[int], output_indices: Sequence[int]
    ) -> list[int]:
        """One token per row of logits [n, vocab]; -1 for a row with NaN, +inf or without a finite maximum.

        Raises IndexError for an unknown sequence.
        """

class Model:
    """The whole model as native calls; one at a time. Bit-equal to the Python components over this backend's ops.

    Raises ValueError when tensors or caches do not fit the config, or an argument does not fit the model.
    """

    def __init__(self, context: Context, config: ModelConfig, tensors: TensorTable, caches: Caches) -> None: ...
    def forward(self, plan: ForwardPlan, wanted_rows: NDArray[np.int64]) -> None:
        """Run all layers over the plan's rows, updating the caches; keeps the hidden states of `wanted_rows`."""

    def logits(self, wanted: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float32]:
        """Logits [n, vocab] of wanted rows, by their numbers among them; valid until the next call of anything."""

    def run_drafts(
        self, anchors: Sequence[int], last_positions: Sequence[int], state_slots: Sequence[int], num_drafts: int
    ) -> None:
        """Run the draft stages over a block per request."""

    def adjust(
        self, row: int, previous: Sequence[int] | NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Logits [R, vocab] of a block row given the token before it (valid until the next call) and scores [R]."""

    def draw_drafts(
        self, sampler: RowSampler, seq_ids: Sequence[int], output_indices: Sequence[int]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The sequential loop: ids and confidence scores [R, num_drafts]."""

class Decoder:
    """The end of decode steps as one call each; one at a time. Bit-equal to model, sampler and draft model called one
    by one.
    """

    def __init__(self, context: Context, model: Model, sampler: RowSampler) -> None: ...
    def takes(self, plan: StepPlan) -> bool:
        """Whether `sample` is made for this step: decode rows without forks, of sequences whose tokens the logits alone
        decide. Sequences that the sampler does not know any more do not count.
        """

    def sample(
        self, plan: StepPlan, num_new_drafts: int, max_positions: int
    ) -> tuple[list[list[int]], NDArray[np.int32] | None, NDArray[np.float32] | None, tuple[float, float]] | None:
        """Behind the forward pass of the same step, in which all rows were wanted that give tokens: new tokens of each
        sequence, none of one that the sampler does not know; draft ids, -1 for none, and their scores
        [S, num_new_drafts], None unless the plan makes drafts; milliseconds of choosing tokens, and of drafting.

        None when a row has no token to be drawn: tokens are then to be chosen in another way. Raises ValueError when
        the latest forward pass has kept another number of rows.
        """
