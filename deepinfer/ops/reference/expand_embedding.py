"""The residual streams that a forward pass begins with."""

from __future__ import annotations

import torch


def expand_embedding(
    token_ids: torch.Tensor, table: torch.Tensor, num_streams: int, out_dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Equal streams, each the token's embedding; the first read takes stream 0 (spec/model.md 3).

    Args:
        token_ids: int64 [T].
        table: bf16 or float32 [V, D].
        num_streams: S.
        out_dtype: bf16 or float32.

    Returns:
        streams out_dtype [T, S, D], and read weights float32 [T, S]: 1 for stream 0, else 0.
    """
    streams = table[token_ids].to(out_dtype)[:, None].expand(-1, num_streams, -1).contiguous()
    pre = torch.zeros(streams.shape[:2], dtype=torch.float32, device=streams.device)
    pre[:, 0] = 1.0
    return streams, pre
