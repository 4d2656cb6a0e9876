"""Random operands for the op tests."""

from __future__ import annotations

import torch

from deepinfer.core.cache_spec import VectorFormat
from deepinfer.core.cache_tensors import VectorCache
from deepinfer.core.paged_entries import PagedEntries
from deepinfer.core.quantized_weight import QuantizedWeight, WeightFormat
from deepinfer.ops import reference


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=generator(seed)).to(dtype)


def fp8_weight(*shape: int, seed: int = 0) -> QuantizedWeight:
    """[..., out, in] with values of the order of in^-1/2."""
    *lead, out, k = shape
    codes = torch.randn(*shape, generator=generator(seed)).mul_(16).to(torch.float8_e4m3fn)
    scales = torch.randint(118, 122, (*lead, -(-out // 32), -(-k // 32)), generator=generator(seed + 1))
    return QuantizedWeight(codes, scales.to(torch.uint8), WeightFormat.FP8_BLOCK32)


def fp4_weight(*shape: int, seed: int = 0) -> QuantizedWeight:
    *lead, out, k = shape
    codes = torch.randint(0, 256, (*lead, out, k // 2), generator=generator(seed), dtype=torch.uint8)
    scales = torch.randint(120, 124, (*lead, out, -(-k // 32)), generator=generator(seed + 1))
    return QuantizedWeight(codes, scales.to(torch.uint8), WeightFormat.FP4_ROW32)


def dense_float64(weight: QuantizedWeight) -> torch.Tensor:
    """Values of a quantized weight, decoded element by element without the ops under test."""
    if weight.format is WeightFormat.FP8_BLOCK32:
        values = weight.codes.to(torch.float64)
        out, k = values.shape[-2:]
        scales = weight.scales.repeat_interleave(32, -2)[..., :out, :].repeat_interleave(32, -1)[..., :k]
    else:
        levels = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
        table = torch.tensor(levels + [-level for level in levels], dtype=torch.float64)
        low, high = table[(weight.codes & 15).long()], table[(weight.codes >> 4).long()]
        values = torch.stack((low, high), dim=-1).flatten(-2)
        scales = weight.scales.repeat_interleave(32, -1)[..., : values.shape[-1]]
    return values * 2.0 ** (scales.to(torch.float64) - 127)


def paged(vectors: torch.Tensor, layout: VectorFormat, per_block: int, row_seq: torch.Tensor) -> PagedEntries:
    """Entries [S, N, d] of S sequences in blocks that lie in no order, for rows of the sequences `row_seq` int64 [T].

    N is a multiple of `per_block`.
    """
    count = vectors.shape[1] // per_block
    data = reference.encode_vectors(vectors.flatten(0, 1), layout).view(-1, per_block, layout.num_bytes)
    order = torch.randperm(data.shape[0], generator=generator(9))
    stored = torch.empty_like(data)
    stored[order] = data
    return PagedEntries(VectorCache(stored, layout), order, row_seq * count)
