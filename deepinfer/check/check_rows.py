"""Replays rows with a backend and judges each op by the reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from deepinfer.check.check_report import CheckReport, OpSeen
from deepinfer.check.checked_llm import CheckedLLM
from deepinfer.check.checked_ops import CheckedOps
from deepinfer.check.replay_row import ReplayRow
from deepinfer.llm import LLM
from deepinfer.outputs import RequestOutput
from deepinfer.sampling_params import SamplingParams
from deepinfer.text.tokenizer import Tokenizer


def check_rows(
    read: Callable[[Tokenizer], list[ReplayRow]], options: Mapping[str, Any], max_tokens: int = 64
) -> CheckReport:
    """Run rows twice, teacher-forced: in whole steps, and op by op with the reference beside each op.

    Args:
        read: gives the rows.
        options: of `LLM`.
        max_tokens: new tokens of rows without recorded ones, and generated tokens of any row, at most.

    Returns:
        What differs. Raises as `LLM` does.
    """
    with LLM(**options) as llm:
        rows = [_shortened(row, max_tokens) for row in read(llm.get_tokenizer())]
        whole = llm.generate([row.prompt for row in rows], [_params(row, max_tokens) for row in rows], use_tqdm=False)
        rows = [_with_tokens(row, output) for row, output in zip(rows, whole, strict=True)]
        must_be_equal = bool(llm.config.batch_invariant)
    with CheckedLLM(**options) as checking:
        checked = checking.checked
        checked.clear()  # what was called while loading has no rows
        params = [_params(row, max_tokens) for row in rows]
        outputs = checking.generate([row.prompt for row in rows], params, use_tqdm=False)
    return CheckReport(
        backend=checking.backend,
        numerics=checking.config.numerics.value,
        num_rows=len(rows),
        num_tokens=sum(len(item.prompt_token_ids) + len(item.outputs[0].token_ids) for item in outputs if item.outputs),
        ops=_seen(checked),
        faults=tuple(checked.faults()),
        largest_difference=_largest_difference(whole, outputs),
        must_be_equal=must_be_equal,
        errors=tuple(item.error.message for item in outputs if item.error is not None),
    )


def _shortened(row: ReplayRow, max_tokens: int) -> ReplayRow:
    return row if row.token_ids is None else replace(row, token_ids=row.token_ids[:max_tokens])


def _with_tokens(row: ReplayRow, output: RequestOutput) -> ReplayRow:
    if row.token_ids is not None or not output.outputs:
        return row
    return replace(row, token_ids=tuple(output.outputs[0].token_ids) or None)


def _params(row: ReplayRow, max_tokens: int) -> SamplingParams:
    if row.token_ids is None:
        own = row.params or SamplingParams(temperature=0.0, max_tokens=None)
        num_tokens = max_tokens if own.max_tokens is None else min(own.max_tokens, max_tokens)
        return own.replace(n=1, max_tokens=num_tokens, min_tokens=min(own.min_tokens, num_tokens), logprobs=1)
    params = SamplingParams(temperature=0.0, logprobs=1, golden_token_ids=row.token_ids)
    return params.replace(max_tokens=len(row.token_ids), ignore_eos=True)


def _seen(checked: CheckedOps) -> tuple[OpSeen, ...]:
    return tuple(
        OpSeen(op, calls, checked.worst.get(op, 0.0), *checked.differing.get(op, (0, 0)))
        for op, calls in sorted(checked.calls.items())
    )


def _largest_difference(whole: Sequence[RequestOutput], checked: Sequence[RequestOutput]) -> float:
    largest = 0.0
    for one, other in zip(whole, checked, strict=True):
        if one.error is not None or other.error is not None:
            continue
        values = [[entry.chosen().logprob for entry in item.outputs[0].logprobs or ()] for item in (one, other)]
        for a, b in zip(*values, strict=True):
            largest = max(largest, abs(a - b)) if math.isfinite(a - b) else math.inf
    return largest
