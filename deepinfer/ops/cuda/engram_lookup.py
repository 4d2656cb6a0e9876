"""`engram_lookup` on a GPU."""

from __future__ import annotations

import torch

from deepinfer.ops import reference
from deepinfer.ops.cuda.pinned_alias import pinned_alias
from tilelang_ops.engram import engram_lookup as kernels


def engram_lookup(rows: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """See `Ops.engram_lookup`; bit-equal to the reference.

    A table on the device, or in pinned host memory, is read by the kernel. Of one that is elsewhere on the host
    (memory-mapped), the host gathers the rows asked for and copies them over.
    """
    table = (codes.view(torch.uint8), scales.view(torch.uint8))
    if not codes.is_cuda:
        if not (codes.is_pinned() and scales.is_pinned()):
            return reference.engram_lookup(rows, codes, scales)
        table = (pinned_alias(table[0], rows.device), pinned_alias(table[1], rows.device))
    return kernels.engram_lookup(rows.reshape(-1), *table).view(rows.shape[0], rows.shape[1] * codes.shape[1])
