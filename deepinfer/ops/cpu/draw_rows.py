"""Temperature, min_p, top-p and top-k, and an exact draw: one token a row."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from deepinfer._C import cpu


def draw_rows(
    context: cpu.Context, logits: torch.Tensor, rows: Sequence[cpu.DrawRow]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw as csrc/cpu/ops/draw_rows.hpp says (spec/decode.md 4.2); probabilities are integers, so results are exact.

    Args:
        context: threads and kernels.
        logits: float32 [n, V], 0 < V <= 2^22, -inf for banned tokens, no NaN, each row with a finite maximum; a row's
            elements are neighbours in memory.
        rows: [n] what each row asks for.

    Returns:
        ids int64 [n] and their natural log-probabilities float32 [n] in the distribution drawn from.

    Raises ValueError for more ids.
    """
    tokens, logprobs = torch.empty(len(rows), dtype=torch.int64), torch.empty(len(rows), dtype=torch.float32)
    cpu.draw_rows(
        context,
        logits=logits.data_ptr(),
        rows=rows,
        tokens=tokens.data_ptr(),
        logprobs=logprobs.data_ptr(),
        num_ids=logits.shape[1],
        stride=logits.stride(0),
    )
    return tokens, logprobs
