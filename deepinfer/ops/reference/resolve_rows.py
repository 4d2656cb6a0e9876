"""Makes a decode plan exact on the device, and its rows: the device's side of `StepPlan.resolve`."""

from __future__ import annotations

import torch

from deepinfer.core.decode_fields import DecodeFields
from deepinfer.core.decode_rows import DecodeRows
from deepinfer.core.device_outcome import DeviceOutcome

_KNOWN_RATE = 2.0  # of drafts that a plan has decided about: above every probability
_NO_RATE = -1.0


def resolve_rows(
    fields: DecodeFields, outcome: DeviceOutcome, rows: DecodeRows, *, splits: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of a plan whose numbers are in `fields`, continuing what `outcome` says of the step before.

    The numbers are those of csrc/core/resolve_plan.hpp, which has the formulas, bit for bit: the host books the same
    step later. Nothing waits for the device and no shape depends on a value.

    Args:
        fields: S sequences, padding included.
        outcome: of the previous step, which may have had more sequences; read, then given this step's contexts, first
            tokens and look-back.
        rows: T rows and S sequences to be filled.
        splits: whether drafts may have to share fewer rows than they want; False saves the ranking.

    Returns:
        offsets int64 [T] number of each row within its sequence, and int64 [T, L + 1] each row's token and its
        predecessors, nearest first; [T, 0] for L = 0.
    """
    is_matched = fields.remap >= 0
    previous = fields.remap.clamp(min=0)
    num_new = torch.where(is_matched, outcome.num_tokens[previous], 0)
    context_lens = torch.where(is_matched, outcome.context_lens[previous] + num_new, fields.context_lens)
    lines = _lines(fields, outcome, (is_matched, previous, num_new))
    usable = _usable(fields, lines, context_lens, (is_matched, num_new))
    if splits:
        usable = _split(fields, outcome, usable, (is_matched, previous))
    rows.context_lens.copy_(context_lens)
    rows.num_rows.copy_(torch.where(fields.num_rows > 0, usable + 1, 0))
    rows.seq_slots.copy_(fields.state_slots)
    num_seqs, num_lookback = lines.shape[0], outcome.lookback.shape[1]
    outcome.context_lens[:num_seqs].copy_(context_lens)
    outcome.first_tokens[:num_seqs].copy_(lines[:, num_lookback])
    outcome.lookback[:num_seqs].copy_(lines[:, :num_lookback].flip(1))
    return _fill_rows(fields, lines, rows, num_lookback)


Match = tuple[torch.Tensor, ...]  # is_matched, previous, num_new: which sequences go on, from where, by how much


def _lines(fields: DecodeFields, outcome: DeviceOutcome, match: Match) -> torch.Tensor:
    """Look-back, newest token and drafts of each sequence, [S, L + 1 + G]."""
    is_matched, previous, num_new = match
    num_lookback = outcome.lookback.shape[1]
    text = torch.cat((outcome.lookback.flip(1), outcome.first_tokens.unsqueeze(1), outcome.tokens), dim=1)[previous]
    places = num_new.unsqueeze(1) + torch.arange(num_lookback + 1, device=text.device)
    continued = torch.cat((text.gather(1, places), outcome.draft_ids[previous]), dim=1)
    return torch.where(is_matched.unsqueeze(1), continued, fields.lines)


def _usable(fields: DecodeFields, lines: torch.Tensor, context_lens: torch.Tensor, match: Match) -> torch.Tensor:
    """Drafts [S] that each sequence could verify, its limits considered; those of an exact plan are decided."""
    is_matched, num_new = match
    num_drafts = fields.rate_factors.shape[0]
    leading = (lines[:, lines.shape[1] - num_drafts :] >= 0).cumprod(1).sum(1)
    room = (fields.max_lens - context_lens - 2).clamp(min=0)
    continued = torch.where(num_new > 0, torch.minimum(torch.minimum(leading, fields.draft_caps), room), 0)
    return torch.where(is_matched, continued, fields.num_rows - 1)


def _split(fields: DecodeFields, outcome: DeviceOutcome, usable: torch.Tensor, match: Match) -> torch.Tensor:
    """Drafts [S] that get a row of `num_draft_rows`: the best rates, ties to the earlier sequence and draft."""
    is_matched, previous = match
    num_seqs, num_drafts = usable.shape[0], fields.rate_factors.shape[0]
    confidences = outcome.confidences[previous].nan_to_num(0.0).clamp(0.0, 1.0)
    product = limit = torch.ones_like(confidences[:, 0])
    rates = []
    for k in range(num_drafts):  # in the order of the host's sum: a scan might multiply in another one
        product = product * confidences[:, k]
        limit = torch.minimum(limit, (product * fields.rate_factors[k]).clamp(max=1.0))
        rates.append(limit)
    numbers = torch.arange(num_drafts, device=usable.device)
    is_wanted = numbers < torch.where(fields.num_rows > 0, usable, 0).unsqueeze(1)
    ranked = torch.where(is_matched.unsqueeze(1), torch.stack(rates, dim=1), _KNOWN_RATE)
    ranked = torch.where(is_wanted, ranked, _NO_RATE).view(-1)
    order = ranked.sort(descending=True, stable=True).indices
    rank = torch.empty_like(order).scatter_(0, order, torch.arange(order.shape[0], device=order.device))
    gets_row = (rank.view(num_seqs, num_drafts) < fields.num_draft_rows) & is_wanted
    return gets_row.sum(1)


def _fill_rows(
    fields: DecodeFields, lines: torch.Tensor, rows: DecodeRows, num_lookback: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of sequences whose numbers are known."""
    numbers = torch.arange(rows.token_ids.shape[0], device=lines.device)
    ends = rows.num_rows.cumsum(0)
    rows.first_rows.copy_(ends - rows.num_rows)
    num_rows = ends[-1:]
    of = torch.minimum(numbers, (num_rows - 1).clamp(min=0))  # padding repeats the last row
    seqs = torch.searchsorted(ends, of, right=True).clamp(max=len(ends) - 1)  # a step without rows: the last sequence
    offsets = of - rows.first_rows[seqs]
    place = seqs * lines.shape[1] + num_lookback + offsets
    ngrams = lines.reshape(-1)[place.unsqueeze(1) - torch.arange(num_lookback + 1, device=lines.device)]
    rows.token_ids.copy_(ngrams[:, 0])
    rows.positions.copy_(rows.context_lens[seqs] + offsets)
    rows.seqs.copy_(torch.where(numbers < num_rows, seqs, -1))
    rows.state_slots.copy_(fields.state_slots[seqs])
    rows.first_blocks.copy_(fields.first_blocks[seqs])
    return offsets, ngrams if num_lookback else ngrams[:, :0]
