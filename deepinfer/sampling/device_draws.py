"""Draws of plain rows on the device: tokens, drafts with the distributions they came from, and verdicts on those."""

from __future__ import annotations

from typing import Final

import torch

from deepinfer.sampling.draft_pool import JUDGING_BYTES
from deepinfer.sampling.purpose import Purpose
from deepinfer.sampling.row_rules import TEMPERATURE_WORD
from deepinfer.sampling.row_words import RowWords
from tilelang_ops.sampling.draw_rows import DrawnRows, draw_rows
from tilelang_ops.sampling.draw_weights import draw_weights
from tilelang_ops.sampling.judge_drafts import judge_drafts
from tilelang_ops.sampling.kept_weights import kept_weights
from tilelang_ops.sampling.row_rule import stream

_BLOCK_VALUES: Final = JUDGING_BYTES // 8
_ALIGNED_ROWS: Final = 16  # blocks begin at multiples: Triton has a form of its own for pointers that are not aligned


def draw_tokens(
    logits: torch.Tensor,
    rules: RowWords,
    num_ids: int,
    *,
    stream_word: int = stream(Purpose.SAMPLE),
    index_offset: int = 0,
) -> DrawnRows:
    """One token per row: argmax or a draw; -1 for a row that cannot be sampled.

    Args:
        logits: float32 [n, V].
        rules: of its rows.
        num_ids: ids that may be drawn, the first ones.
        stream_word: what the draw is for.
        index_offset: added to the output indices of the rules.
    """
    return draw_rows(
        logits,
        rules.words,
        num_ids,
        stream_word=stream_word,
        index_offset=index_offset,
        draws=rules.kinds.draws,
        filters=rules.kinds.filters,
    )


def draw_drafts(
    usable: torch.Tensor,
    rules: RowWords,
    kept: tuple[torch.Tensor, torch.Tensor],
    *,
    lane: int,
    index_offset: int = 0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Drafts to be judged by rejection; see `Sampler.propose`.

    Args:
        usable: float32 [n, num_ids] logits of the tokenizer's ids.
        rules: of its rows, of which some are drawn.
        kept: float32 [m, num_ids] that takes the distributions of drawn rows, and their places there int64 [n], -1 for
            rows whose draft nobody is going to judge.
        lane: place of the drafts in their blocks.
        index_offset: added to the output indices of the rules.

    Returns:
        ids int64 [n], and bool [n]: whether a row has left its distribution at its place.
    """
    key = {"stream_word": stream(Purpose.DRAFT, lane), "index_offset": index_offset}
    drawn = draw_tokens(usable, rules, usable.shape[1], **key)
    ids = drawn.tokens.clamp(min=0)
    weights, places = kept
    has_weights = (places >= 0) & (rules.words[:, TEMPERATURE_WORD] != 0) & (drawn.tokens >= 0)
    places = torch.where(has_weights, places, -1)
    # In float32 before the draw: what is kept is then exactly what was drawn from.
    kept_weights(usable, rules.words, drawn, places, weights)
    draw_weights(weights, places, rules.words, ids, **key)
    return ids, has_weights


def judge(
    logits: torch.Tensor,
    rules: RowWords,
    num_ids: int,
    drawn: DrawnRows,
    drafts: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
) -> None:
    """Replace the tokens of rows that have a draft to judge by the verdicts; see `sampling/rejection.py`.

    Args:
        logits: float32 [n, V], and
        rules: and
        num_ids: that the tokens were drawn with.
        drawn: its tokens are written, where they are tokens.
        drafts: float32 [m, num_ids] distributions, the place there of each row's draft int64 [n], -1 for a row without
            one, and the drafts int64 [n].
    """
    words, (weights, places, draft_ids) = rules.words, drafts
    places = torch.where((drawn.tokens >= 0) & (words[:, TEMPERATURE_WORD] != 0), places, -1)
    step = max(1, _BLOCK_VALUES // num_ids // _ALIGNED_ROWS) * _ALIGNED_ROWS
    numbers = torch.arange(step, device=logits.device)
    for begin in range(0, len(logits), step):
        block = slice(begin, begin + step)
        part = DrawnRows(drawn.tokens[block], drawn.cuts[block], drawn.maxima[block])
        own = torch.where(places[block] >= 0, numbers[: len(part.tokens)], -1)
        target = torch.empty((len(own), num_ids), dtype=torch.int64, device=logits.device)
        kept_weights(logits[block], words[block], part, own, target)
        judge_drafts(target, weights, places[block], draft_ids[block], words[block], part.tokens)
