"""Scores of prompt tokens from blocks of logits, with bounded memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import torch

from deepinfer.core.step_result import PromptLogprobs
from deepinfer.errors import RequestError
from deepinfer.outputs.logprob import LOGPROB_FLOOR
from deepinfer.sampling.logprobs import log_softmax, score_tokens

_ARRAYS: Final = ("logprobs", "ranks", "greedy", "top_ids", "top_logprobs")
_BLOCK_VALUES: Final = 2**20  # logits worked on at once; temporaries are a small multiple of 4 MiB


def rows_per_block(vocab_size: int) -> int:
    """How many rows of logits to make at once, so that a whole prompt's logits never exist together."""
    return max(1, _BLOCK_VALUES // vocab_size)


def prompt_logprobs(
    logits: torch.Tensor, targets: torch.Tensor, *, start: int, num_top: int, num_valid_ids: int
) -> PromptLogprobs:
    """Score consecutive prompt positions: raw log-softmax, never affected by sampling fields.

    All rows are worked on at once; `rows_per_block` says how many to hand over together. The softmax runs over the
    model's whole vocabulary; ranks, argmax and best lists over ids that the tokenizer has. A target that it does not
    have gets its own log-probability and the rank behind all others.

    Args:
        logits: float32 [n, V]; row i is the output that judges targets[i].
        targets: int64 [n] prompt tokens.
        start: prompt position of targets[0], >= 1.
        num_top: best alternatives per position; -1 the whole vocabulary.
        num_valid_ids: ids the tokenizer has.

    Raises:
        RequestError (code "non_finite_logits"): a row has NaN or +inf, or nothing but -inf.
    """
    if logits.shape[0] and not bool(torch.isfinite(logits.amax(dim=-1)).all()):
        message = f"the model gave non-finite logits for prompt positions from {start} on"
        raise RequestError(message, code="non_finite_logits")
    num_ids = min(num_valid_ids, logits.shape[1])
    ranking, log_probs = logits[:, :num_ids], log_softmax(logits)
    known = targets < num_ids
    ids = torch.where(known, targets, 0)
    whole = num_top < 0
    scores = score_tokens(ranking, log_probs[:, :num_ids], ids, 0 if whole else min(num_top, num_ids))
    own = log_probs.gather(1, targets[:, None])[:, 0].clamp(min=LOGPROB_FLOOR).cpu().numpy()
    is_known = known.cpu().numpy()
    greedy = is_known & (scores.ranks == 1)
    ranks = np.where(is_known, scores.ranks, num_ids + 1).astype(np.int32)
    if whole:
        rows = log_probs[:, :num_ids].clamp(min=LOGPROB_FLOOR).cpu().numpy()
        return PromptLogprobs(start, own, ranks, greedy, None, rows)
    return PromptLogprobs(start, own, ranks, greedy, scores.top_ids, scores.top_logprobs)


def join_prompt_logprobs(pieces: Iterable[PromptLogprobs], num_rows: int) -> PromptLogprobs:
    """Join pieces of consecutive positions, `num_rows` in all, at least one.

    The arrays are made once for all rows and each piece is copied in before the next one is computed: small arrays kept
    between the pieces' large temporaries would make the heap grow by a block's logits each time.
    """
    whole: PromptLogprobs | None = None
    done = 0
    for piece in pieces:
        whole = whole or _room_for(piece, num_rows)
        rows = slice(done, done + len(piece.logprobs))
        for name in _ARRAYS:
            array = getattr(piece, name)
            if array is not None:
                getattr(whole, name)[rows] = array
        done = rows.stop
    assert whole is not None and done == num_rows
    return whole


def _room_for(first: PromptLogprobs, num_rows: int) -> PromptLogprobs:
    def room(array: np.ndarray) -> np.ndarray:
        return np.empty((num_rows, *array.shape[1:]), array.dtype)

    return PromptLogprobs(
        first.start,
        room(first.logprobs),
        room(first.ranks),
        room(first.greedy),
        None if first.top_ids is None else room(first.top_ids),
        None if first.top_logprobs is None else room(first.top_logprobs),
    )
