"""Whole steps of an engine beside the sum of what their ops must take at least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from deepinfer.bench.batch_times import BatchTimes, time_batch
from deepinfer.bench.machine_limits import MachineLimits
from deepinfer.bench.op_figures import OpFigures
from deepinfer.bench.prompt_file import random_prompts
from deepinfer.bench.spread import Spread
from deepinfer.llm import LLM
from deepinfer.sampling_params import SamplingParams

GPU_LAUNCH_SECONDS: Final = 3e-6  # of a kernel that waits for the one before


@dataclass(frozen=True, slots=True)
class StepFigures:
    """One kind of step.

    Attributes:
        kind: "decode", one row a sequence, or "prefill", one prompt.
        rows: of the step.
        step: seconds of a step, with what lies between steps.
        floor_seconds: sum of the ops' floors.
        ops_seconds: sum of what the ops take one by one.
    """

    kind: str
    rows: int
    step: Spread
    floor_seconds: float
    ops_seconds: float

    @property
    def over_floor(self) -> float:
        """Step over floor."""
        return self.step.median / self.floor_seconds

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return {
            "kind": self.kind,
            "rows": self.rows,
            "step": self.step.to_dict("ms", 1e3),
            "floor_ms": self.floor_seconds * 1e3,
            "ops_ms": self.ops_seconds * 1e3,
            "over_floor": self.over_floor,
            "tokens_per_second": self.rows / self.step.median,
        }


def op_floor(op: OpFigures, limits: MachineLimits, launch_seconds: float) -> float:
    """Seconds: the longer one of moving its bytes and computing its products, and one launch."""
    products = 0.0
    if op.multiply_adds is not None and limits.multiply_adds_per_second:
        products = op.multiply_adds / limits.multiply_adds_per_second
    return max(op.num_bytes / limits.bytes_per_second, products) + launch_seconds


class StepBench:
    """Runs an engine and adds up its ops.

    Args:
        llm: with room for the sequences and prompts, drafts off.
        limits: of the machine.
        launch_seconds: added to every op's floor; 0 on a CPU.
        backend: name of the ops' times that count.
        repeats: timed runs of each step, after one that warms up.
    """

    def __init__(self, llm: LLM, limits: MachineLimits, launch_seconds: float, backend: str, repeats: int) -> None:
        self._llm = llm
        self._limits = limits
        self._launch_seconds = launch_seconds
        self._backend = backend
        self._repeats = repeats

    def decode(self, ops: Mapping[int, Sequence[OpFigures]], context_len: int, num_steps: int) -> list[StepFigures]:
        """Decode steps behind prompts of `context_len` random tokens each, by number of sequences.

        Args:
            ops: of a step with so many rows, for each number of sequences.
            context_len: tokens of each prompt.
            num_steps: decode steps of a run.
        """
        found = []
        for batch, calls in ops.items():
            runs = self._runs(batch, context_len, 1 + num_steps)
            found.append(self._figures("decode", calls, [run.step_seconds for run in runs]))
        return found

    def prefill(self, ops: Sequence[OpFigures]) -> StepFigures:
        """One prompt of as many tokens as the ops have rows, to its first token."""
        runs = self._runs(1, ops[0].rows, 2)
        return self._figures("prefill", ops, [run.first_token_seconds for run in runs])

    def _runs(self, batch: int, prompt_len: int, num_tokens: int) -> list[BatchTimes]:
        params = SamplingParams(temperature=0.0, max_tokens=num_tokens, ignore_eos=True)
        prompts = random_prompts(self._llm.get_tokenizer(), batch, prompt_len)
        return [time_batch(self._llm, prompts, params) for _ in range(1 + self._repeats)][1:]

    def _figures(self, kind: str, ops: Sequence[OpFigures], seconds: Sequence[float]) -> StepFigures:
        floor = sum(op.count * op_floor(op, self._limits, self._launch_seconds) for op in ops)
        taken = sum(op.count * op.seconds[self._backend].median for op in ops)
        return StepFigures(kind, ops[0].rows, Spread.of(seconds), floor, taken)
