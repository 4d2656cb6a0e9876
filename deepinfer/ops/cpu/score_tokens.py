"""Raw log-probability and rank of one token per row."""

from __future__ import annotations

import torch

from deepinfer._C import cpu


def score_tokens(
    context: cpu.Context, logits: torch.Tensor, tokens: torch.Tensor, num_ids: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-softmax over all columns at each row's token, and the token's place in the ranking.

    Args:
        context: threads and kernels.
        logits: float32 [n, V] without NaN; a row's elements are neighbours in memory.
        tokens: int64 [n].
        num_ids: ids among which the rank counts, at most V.

    Returns:
        float32 [n] and int64 [n], 1-based (logit descending, id ascending).
    """
    logprobs, ranks = torch.empty(len(tokens), dtype=torch.float32), torch.empty(len(tokens), dtype=torch.int64)
    cpu.score_tokens(
        context,
        logits=logits.data_ptr(),
        tokens=tokens.data_ptr(),
        logprobs=logprobs.data_ptr(),
        ranks=ranks.data_ptr(),
        num_rows=logits.shape[0],
        num_logits=logits.shape[1],
        num_ids=num_ids,
        stride=logits.stride(0),
    )
    return logprobs, ranks
