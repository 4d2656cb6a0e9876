"""The compressed entries that each row attends to: scores, candidate blocks and top-k, some rows at a time."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tilelang_ops.index.bf16_selection import Bf16Selection
from tilelang_ops.index.float_selection import FloatSelection
from tilelang_ops.index.index_scores import PagedKeys
from tilelang_ops.index.selection_rule import SelectionRule

_SCORE_BYTES = 1 << 28  # of the scores that exist at a time
_MOST_ROWS = 1 << 15  # of a chunk: a launch has at most 65,535 thread blocks along its second axis


@dataclass(frozen=True, slots=True)
class SelectedEntries:
    """See `select_entries`."""

    picks: torch.Tensor
    blocks: torch.Tensor | None
    margin: torch.Tensor | None
    block_margin: torch.Tensor | None


def select_entries(
    q: torch.Tensor,
    head_weights: torch.Tensor,
    keys: PagedKeys,
    num_visible: torch.Tensor,
    candidates: torch.Tensor | None,
    rule: SelectionRule,
) -> SelectedEntries:
    """The best entries of every row by ``scale * sum_h head_weights[h] * relu(q[h] . key)``.

    With candidates only the entries of a row's candidate blocks are scored. Chunks of rows bound the scores that exist
    at a time; what a row gets does not depend on the others.

    Args:
        q: float32 or bf16 [T, Hi, di], of values that bf16 has.
        head_weights: float32 [T, Hi].
        keys: packed FP4 keys.
        num_visible: int64 [T].
        candidates: int64 [T, B] block numbers, ascending, -1 padded; None: all entries.
        rule: sizes and options.

    Returns:
        picks int64 [T, topk] ascending, -1 padded; blocks int64 [T, num_blocks] likewise, of no meaning in rows that
        take all they see; margins float32 [T].
    """
    num_rows = q.shape[0]
    if num_rows == 0 or rule.max_visible == 0 or (rule.max_visible <= rule.topk and not rule.with_margins):
        return _all_visible(num_visible, rule)
    q, head_weights = q.contiguous(), head_weights.contiguous()
    candidates = None if candidates is None else candidates.contiguous()
    columns = 0 if candidates is None else candidates.shape[1] * rule.block_size
    if candidates is None or rule.num_blocks:  # every entry is scored
        columns = max(columns, rule.max_visible)
    form = Bf16Selection.of(rule, q, keys) or FloatSelection(rule)
    size = max(1, min(_MOST_ROWS, _SCORE_BYTES // (form.score_bytes * max(columns, 1))))
    parts = []
    for begin in range(0, num_rows, size):
        where = slice(begin, begin + size)
        some = None if candidates is None else candidates[where]
        operands = (q[where], head_weights[where], keys.rows(where), num_visible[where])
        parts.append(_select_rows(form, operands, some, rule))
    return parts[0] if len(parts) == 1 else _join(parts)


def _select_rows(
    form: Bf16Selection | FloatSelection,
    operands: tuple[torch.Tensor, torch.Tensor, PagedKeys, torch.Tensor],
    candidates: torch.Tensor | None,
    rule: SelectionRule,
) -> SelectedEntries:
    """One chunk; `operands` are queries, head weights, keys and numbers of visible entries."""
    num_visible = operands[3]
    blocks = margin = block_margin = None
    if candidates is None or rule.num_blocks:
        scores = form.scores(*operands, None)
    if rule.num_blocks:
        maxima = form.maxima(scores, num_visible)
        blocks = form.blocks(maxima, num_visible)
        if rule.with_margins:
            newest = (num_visible - 1).div(rule.block_size, rounding_mode="floor")  # is in and does not compete
            block_margin = _gap(_hide(maxima, newest), rule.num_blocks - 1)
    if candidates is not None:
        scores = form.scores(*operands, candidates)
    picks = form.picks(scores, num_visible, candidates)
    if rule.with_margins:
        shown = _hide(scores, num_visible) if candidates is None else scores[:, : rule.num_slots(candidates)]
        margin = _gap(shown, rule.topk)
    return SelectedEntries(picks, blocks, margin, block_margin)


def _hide(scores: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    """-inf from column count[row] on, and for NaN."""
    column = torch.arange(scores.shape[1], device=scores.device)
    return scores.masked_fill((column >= count.unsqueeze(1)) | scores.isnan(), -torch.inf)


def _gap(scores: torch.Tensor, count: int) -> torch.Tensor:
    """Gap between the last chosen and the first rejected of `count` choices; inf when nothing was rejected."""
    if count == 0 or scores.shape[1] <= count:
        return scores.new_full((scores.shape[0],), torch.inf, dtype=torch.float32)
    best = torch.where(scores.isnan(), -torch.inf, scores).float().topk(count + 1, dim=1).values
    return torch.where(best[:, count].isneginf(), torch.inf, best[:, count - 1] - best[:, count])


def _all_visible(num_visible: torch.Tensor, rule: SelectionRule) -> SelectedEntries:
    """When no row is scored."""
    numbers = torch.arange(rule.topk, device=num_visible.device)
    clear = num_visible.new_full(num_visible.shape, torch.inf, dtype=torch.float32) if rule.with_margins else None
    return SelectedEntries(
        picks=torch.where(numbers < num_visible.unsqueeze(1), numbers, -1),
        blocks=num_visible.new_full((num_visible.shape[0], rule.num_blocks), -1) if rule.num_blocks else None,
        margin=clear,
        block_margin=clear if rule.num_blocks else None,
    )


def _join(parts: list[SelectedEntries]) -> SelectedEntries:
    """Chunks one behind the other."""
    fields = ([getattr(part, name) for part in parts] for name in ("picks", "blocks", "margin", "block_margin"))
    return SelectedEntries(*(None if values[0] is None else torch.cat(values) for values in fields))
