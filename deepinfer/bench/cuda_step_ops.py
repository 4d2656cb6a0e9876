"""Figures of the ops of whole steps on a GPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import torch

from deepinfer.bench.cuda_op_bench import CudaOpBench, all_cases
from deepinfer.bench.cuda_op_figures import CudaOpFigures
from deepinfer.bench.machine_limits import GPU_LAUNCH_SECONDS, MachineLimits
from deepinfer.bench.random_operands import RandomOperands
from deepinfer.bench.step_calls import OpKey, StepCalls, decode_calls, prefill_calls
from deepinfer.bench.step_op import StepOp
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.engine.model_path import resolve_model_path

DecodeSize = tuple[int, int]  # sequences, drafts of each


class CudaStepOps:
    """Times every op that some steps call, each number of rows once.

    Args:
        bench: times ops.
        model: checkpoint directory, config file or hub id; None: the bundled one. Only the config is read.
        context_len: tokens before the rows.
    """

    def __init__(self, bench: CudaOpBench, model: str | None, context_len: int) -> None:
        self._bench = bench
        self._model = model
        self._context_len = context_len
        self._config = DeepSeekV41Config.from_path(resolve_model_path(model))
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._cases = all_cases(self._config, RandomOperands(device, 1), context_len)

    def run(self, decodes: Sequence[DecodeSize], prefills: Sequence[int]) -> dict[DecodeSize | int, list[StepOp]]:
        """Ops of decode steps, by size, and of prefills, by tokens. Ops that fail are in the bench's `failures`."""
        parts: dict[DecodeSize | int, list[StepCalls]] = {
            size: decode_calls(self._cases, self._config, *size) for size in decodes
        }
        parts |= {num_tokens: prefill_calls(self._cases, num_tokens) for num_tokens in prefills}
        found = self._figures([part for calls in parts.values() for part in calls])
        return {step: step_ops(calls, found, self._bench.limits) for step, calls in parts.items()}

    def _figures(self, parts: Iterable[StepCalls]) -> dict[tuple[int, int, OpKey], CudaOpFigures]:
        """By rows, rows of a sequence, and op."""
        rows: dict[tuple[int, frozenset[OpKey]], list[int]] = {}
        for part in parts:
            counts = rows.setdefault((part.rows_per_seq, frozenset(part.calls)), [])
            if part.rows not in counts:
                counts.append(part.rows)
        found: dict[tuple[int, int, OpKey], CudaOpFigures] = {}
        for (rows_per_seq, uses), counts in rows.items():
            for item in self._bench.run(self._model, counts, self._context_len, rows_per_seq, uses):
                found[item.op.rows, rows_per_seq, (item.op.name, item.use)] = item
        return found


def step_ops(
    parts: Sequence[StepCalls], found: Mapping[tuple[int, int, OpKey], CudaOpFigures], limits: MachineLimits
) -> list[StepOp]:
    """The ops of a step's parts from figures by rows, rows of a sequence, and op; those that failed are left out."""
    ops = []
    for part in parts:
        for key, calls in part.calls.items():
            item = found.get((part.rows, part.rows_per_seq, key))
            if item is not None:
                op = StepOp.of(item.op, item.use, "cuda", limits, GPU_LAUNCH_SECONDS)
                ops.append(replace(op, calls=calls))
    return ops
