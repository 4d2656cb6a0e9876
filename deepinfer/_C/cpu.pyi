"""Native CPU kernels. Built from csrc/cpu.

Ops take tensors as addresses (`data_ptr()`) of contiguous memory on the CPU, 0 for none; what each of them holds is
said in csrc/cpu/ops/<op>.hpp. Nothing is checked: `deepinfer.ops.cpu` is the way to call them.
"""

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
