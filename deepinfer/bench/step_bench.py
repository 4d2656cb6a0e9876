"""Whole steps of an engine beside the sum of what their ops must take at least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deepinfer.bench.batch_times import BatchTimes, time_batch
from deepinfer.bench.draft_mode import DraftMode
from deepinfer.bench.prompt_file import random_prompts
from deepinfer.bench.spread import Spread
from deepinfer.bench.step_kernels import StepKernels, step_kernels
from deepinfer.bench.step_op import StepOp
from deepinfer.llm import LLM
from deepinfer.sampling_params import SamplingParams


@dataclass(frozen=True, slots=True)
class StepFigures:
    """One kind of step.

    Attributes:
        kind: "decode", or "prefill" of one prompt.
        num_seqs: sequences.
        rows: of the target's forward pass; of scheduled drafts, which vary, one a sequence.
        drafts: how they are verified.
        num_drafts: verified per sequence and step; 0 for none or for a number that varies.
        step: seconds of a step, with what lies between steps.
        tokens_per_step: new tokens; of a prefill, the prompt's.
        ops: of the step; empty where it is not known which there are.
        kernels: launched by CUDA graphs; None where there are none.
    """

    kind: str
    num_seqs: int
    rows: int
    drafts: DraftMode
    num_drafts: int
    step: Spread
    tokens_per_step: float
    ops: tuple[StepOp, ...]
    kernels: StepKernels | None = None

    @property
    def floor_seconds(self) -> float:
        """Sum of the ops' floors."""
        return sum(op.calls * op.floor_seconds for op in self.ops)

    @property
    def ops_seconds(self) -> float:
        """Sum of what the ops take one by one."""
        return sum(op.calls * op.seconds for op in self.ops)

    @property
    def over_floor(self) -> float | None:
        """Step over floor; None without ops."""
        return self.step.median / self.floor_seconds if self.ops else None

    @property
    def tokens_per_second(self) -> float:
        """Over the step's median."""
        return self.tokens_per_step / self.step.median

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        sums = {"floor_ms": self.floor_seconds * 1e3, "ops_ms": self.ops_seconds * 1e3} if self.ops else {}
        return {
            "kind": self.kind,
            "sequences": self.num_seqs,
            "rows": self.rows,
            "drafts": self.drafts.value,
            "num_drafts": self.num_drafts,
            "step": self.step.to_dict("ms", 1e3),
            **sums,
            "over_floor": self.over_floor,
            "tokens_per_step": self.tokens_per_step,
            "tokens_per_second": self.tokens_per_second,
            "kernels": None if self.kernels is None else self.kernels.to_dict(),
            "ops": [op.to_dict() for op in self.ops],
        }


class StepBench:
    """Runs an engine.

    Args:
        llm: with room for the sequences and prompts.
        drafts: how the engine verifies them.
        num_drafts: verified per sequence and step; 0 for none or for a number that varies.
        repeats: timed runs of each step, after one that warms up.
    """

    def __init__(self, llm: LLM, drafts: DraftMode, num_drafts: int, repeats: int) -> None:
        self._llm = llm
        self._drafts = drafts
        self._num_drafts = num_drafts
        self._repeats = repeats

    def decode(self, num_seqs: int, ops: Sequence[StepOp], context_len: int, num_steps: int) -> StepFigures:
        """Decode steps behind prompts of `context_len` random tokens each.

        Args:
            num_seqs: sequences.
            ops: of a step.
            context_len: tokens of each prompt.
            num_steps: decode steps of a run; fewer where drafts are accepted.
        """
        runs = self._runs(num_seqs, context_len, 1 + num_steps)
        rows = num_seqs * (1 + self._num_drafts)
        tokens = sum(run.num_decode_tokens for run in runs) / sum(run.num_decode_steps for run in runs)
        sizes = (num_seqs, rows, self._drafts, self._num_drafts)
        step = Spread.of([run.step_seconds for run in runs])
        return StepFigures("decode", *sizes, step, tokens, tuple(ops), step_kernels(self._llm, rows))

    def prefill(self, num_tokens: int, ops: Sequence[StepOp]) -> StepFigures:
        """One prompt of so many tokens, to its first token."""
        step = Spread.of([run.first_token_seconds for run in self._runs(1, num_tokens, 2)])
        return StepFigures("prefill", 1, num_tokens, self._drafts, self._num_drafts, step, num_tokens, tuple(ops))

    def _runs(self, batch: int, prompt_len: int, num_tokens: int) -> list[BatchTimes]:
        params = SamplingParams(temperature=0.0, max_tokens=num_tokens, ignore_eos=True)
        prompts = random_prompts(self._llm.get_tokenizer(), batch, prompt_len)
        return [time_batch(self._llm, prompts, params) for _ in range(1 + self._repeats)][1:]
