"""Raw log-softmax and, per row, one token's log-probability, its rank and the best alternatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from deepinfer.ops.reference.exact_math import exp, log
from deepinfer.ops.reference.tree_sum import tree_sum
from deepinfer.outputs.logprob import LOGPROB_FLOOR
from deepinfer.sampling.token_order import best_keys, ids_of_keys, order_keys, ranks_of

_NEGLIGIBLE: Final = -100.0  # exp of it is below any float32 sum's last bit


@dataclass(frozen=True, slots=True)
class TokenScores:
    """Per row the chosen token's score and the best tokens.

    Attributes:
        logprobs: float32 [n], >= -9999.
        ranks: int32 [n], 1-based.
        top_ids: int32 [n, k], best first.
        top_logprobs: float32 [n, k], >= -9999.
    """

    logprobs: np.ndarray
    ranks: np.ndarray
    top_ids: np.ndarray
    top_logprobs: np.ndarray


def log_softmax(logits: torch.Tensor) -> torch.Tensor:
    """Natural log-softmax, float32 [n, V] -> float32 [n, V]; a row's bits depend on that row alone."""
    shifted = logits - logits.amax(dim=-1, keepdim=True)
    total = tree_sum(exp(shifted.clamp(min=_NEGLIGIBLE)))
    return shifted - log(total)[:, None]


def score_tokens(ranking: torch.Tensor, log_probs: torch.Tensor, ids: torch.Tensor, num_top: int) -> TokenScores:
    """Read one token per row and the best `num_top`.

    Args:
        ranking: float32 [n, V] without NaN; orders the tokens (ties by lower id).
        log_probs: float32 [n, V], the values to report.
        ids: int64 [n], the chosen tokens.
        num_top: 0 <= k <= V.
    """
    chosen = log_probs.gather(1, ids[:, None])[:, 0]
    top_ids = ids_of_keys(best_keys(order_keys(ranking), num_top)) if num_top else ids.new_zeros((len(ids), 0))
    return TokenScores(
        _floored(chosen),
        ranks_of(ranking, ids).to(torch.int32).cpu().numpy(),
        top_ids.to(torch.int32).cpu().numpy(),
        _floored(log_probs.gather(1, top_ids)),
    )


def _floored(values: torch.Tensor) -> np.ndarray:
    result: np.ndarray = values.clamp(min=LOGPROB_FLOOR).cpu().numpy()
    return result
