"""`resolve_rows` on a GPU."""

from __future__ import annotations

from dataclasses import fields as fields_of
from typing import TypeVar

import torch

from deepinfer.core.decode_fields import DecodeFields
from deepinfer.core.decode_rows import DecodeRows
from deepinfer.core.device_outcome import DeviceOutcome
from tilelang_ops.step.continue_seqs import PlanFields, StepBefore, continue_seqs
from tilelang_ops.step.fill_rows import StepRows, fill_rows
from tilelang_ops.step.share_rows import share_rows

Kind = TypeVar("Kind", PlanFields, StepBefore, StepRows)


def resolve_rows(
    fields: DecodeFields, outcome: DeviceOutcome, rows: DecodeRows, *, splits: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """See `Ops.resolve_rows`."""
    plan = _named(PlanFields, fields)
    before = _named(StepBefore, outcome)
    lines, rates = continue_seqs(plan, before, rows.context_lens, rows.num_rows, ranks=splits)
    if splits:
        share_rows(rates, fields.num_draft_rows, rows.num_rows)
    return fill_rows(plan, lines, _named(StepRows, rows), before)


def _named(kind: type[Kind], source: object) -> Kind:
    """The fields of a type of the kernels from those with the same names."""
    return kind(**{field.name: getattr(source, field.name) for field in fields_of(kind)})
