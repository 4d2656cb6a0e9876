"""Products of many rows with FP8 weights by the matrix library: which take this form, and what it launches."""

import torch

from tilelang_ops.gemm.library_product import HAS_LIBRARY, scaled_group_product, scaled_product
from tilelang_ops.gemm.quantize_wide import WIDE, Rotation, quantize_wide, quantize_wide_kernel
from tilelang_ops.gemm.recode_weight import recode_weight, recode_weight_kernel
from tilelang_ops.gemm.split_rows import MAX_ROWS
from tilelang_ops.jit.kernel_spec import KernelSpec

_ARCH = "sm_90a"  # the library's recipe of scales; SM100 has one for scales of 32 columns in its own kernels
_TILE = 128  # rows and outputs of a tile, here and there
_BLOCKS = 132  # tiles at a time on an H200, one a multiprocessor
_TILE_US = 0.95  # of 128 columns of a tile by the tile form
_LIBRARY_US = 0.45  # of the same by the library
_LAUNCH_US = 6.0  # of the kernels that recode, and of the weight's at least
_WEIGHTS_A_US = 2_000_000  # that are recoded, read and written
_GROUP_STEP = 4 * WIDE  # columns of a group: what the call with an output of its own takes


def takes_wide(num_rows: int, num_out: int, dim: int, num_groups: int, arch: str) -> bool:
    """Whether `multiply_wide` is the form for a product with bf16 results: where it should take less time.

    Measured on an H200 (torch 2.11, CUDA 13.0), both forms go through tiles of 128x128 in rounds of 132: the tile form
    takes 0.95 us for 128 columns of a round, the library 0.45 us, one group after the other. What is saved has to pay
    for recoding the weight, 4 bytes a ps. So an output projection of 5120x8192 goes to the library from 65 rows on
    (at 256: 62 -> 51 us), a query of 32768x1280 from 257 (at 256 both take 50, at 512: 96 -> 68), 4096x1280 from 513;
    eight groups of 1024x4096 from 1,025 (at 1,024: 158 -> 165, at 2,048: 312 -> 198), as one group fills few
    multiprocessors. Up to 64 rows, where weights are bound by their bytes, other forms are faster.
    """
    if not (HAS_LIBRARY and arch == _ARCH and num_rows > MAX_ROWS and _fits(num_out, dim, num_groups)):
        return False
    per_group, row_tiles, steps = num_out // num_groups, -(-num_rows // _TILE), dim // WIDE
    tiles = row_tiles * -(-per_group // _TILE)
    present = -(-tiles * num_groups // _BLOCKS) * steps * _TILE_US
    library = -(-tiles // _BLOCKS) * num_groups * steps * _LIBRARY_US
    return present > library + _LAUNCH_US + num_out * dim / _WEIGHTS_A_US


def multiply_wide(
    x: torch.Tensor, rotation: Rotation | None, codes: torch.Tensor, scales: torch.Tensor, num_groups: int
) -> torch.Tensor:
    """Q8/32 of the rows times FP8 weights, both recoded to scales of 128 columns; see `takes_wide`.

    Recoding changes a product by 1.6e-4 of its norm (measured), below the rounding of the result to bf16, 1.7e-3.

    Args:
        x: bf16 [T, G*K] contiguous.
        rotation: cos and sin float32 [T, r/2] and the head size, where x holds heads that are rotated back first.
        codes: float8_e4m3fn [G*R, K].
        scales: uint8 E8M0 [ceil(G*R/32), K/32].
        num_groups: G.

    Returns:
        bf16 [T, G*R]; float32 sums, rounded once.
    """
    rows, weight = quantize_wide(x, rotation), recode_weight(codes, scales)
    out = scaled_product(rows, weight) if num_groups == 1 else scaled_group_product(rows, weight, num_groups)
    return out[: x.shape[0]]


def wide_specs(num_out: int, dim: int, *, num_groups: int = 1, head: tuple[int, int] = (0, 0)) -> list[KernelSpec]:
    """What `multiply_wide` launches for one weight shape, beside the library; `head` as in `few_specs`."""
    if not _fits(num_out, dim, num_groups):
        return []
    rows = {"dim": num_groups * dim, "head_dim": head[0], "rope_dim": head[1]}
    name = "gemm.quantize_wide.rotated" if head[0] else "gemm.quantize_wide"
    return [
        KernelSpec(name, quantize_wide_kernel, rows, arches=(_ARCH,)),
        KernelSpec("gemm.recode_weight", recode_weight_kernel, {"num_out": num_out, "dim": dim}, arches=(_ARCH,)),
    ]


def _fits(num_out: int, dim: int, num_groups: int) -> bool:
    if num_groups == 1:
        return dim % WIDE == 0 and num_out % 32 == 0
    return dim % _GROUP_STEP == 0 and num_out // num_groups % WIDE == 0
