"""Log-probabilities of sampled tokens, in each request's mode and width."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from deepinfer.core.step_result import SampledToken
from deepinfer.sampling.logprobs import TokenScores, log_softmax, score_tokens
from deepinfer.sampling.transform import transform
from deepinfer.sampling_params import SamplingParams


def sampled_logprobs(
    logits: torch.Tensor, adjusted: torch.Tensor, tokens: Sequence[int], params: Sequence[SamplingParams | None]
) -> dict[int, SampledToken]:
    """SampledToken objects of the rows that asked for log-probabilities.

    Args:
        logits: float32 [n, V], as the model gave them.
        adjusted: float32 [n, num_ids], after bans, bias and penalties.
        tokens: [n] chosen ids.
        params: [n]; None skips the row.

    Returns:
        {row: token with logprob, rank, top_ids, top_logprobs}. Ranks and best lists are over the tokenizer's ids.
    """
    groups: dict[tuple[str, int], list[int]] = {}
    for row, item in enumerate(params):
        if item is not None and item.logprobs is not None:
            groups.setdefault((item.logprobs_mode, item.logprobs), []).append(row)
    results: dict[int, SampledToken] = {}
    for (mode, width), rows in groups.items():
        num_ids = adjusted.shape[1]
        num_top = num_ids if width < 0 else min(width, num_ids)
        ids = torch.tensor([tokens[row] for row in rows], device=logits.device)
        if mode == "raw":
            ranking, log_probs = logits[rows, :num_ids], log_softmax(logits[rows])[:, :num_ids]
        else:
            ranking = adjusted[rows]
            log_probs = transform(ranking, [item for row in rows if (item := params[row]) is not None]).log_probs()
        results.update(_as_tokens(rows, ids, score_tokens(ranking, log_probs, ids, num_top)))
    return results


def _as_tokens(rows: Sequence[int], ids: torch.Tensor, scores: TokenScores) -> dict[int, SampledToken]:
    return {
        row: SampledToken(
            token_id,
            float(scores.logprobs[place]),
            int(scores.ranks[place]),
            scores.top_ids[place].copy(),  # a view would keep the whole step's array alive
            scores.top_logprobs[place].copy(),
        )
        for place, (row, token_id) in enumerate(zip(rows, ids.tolist(), strict=True))
    }
