"""Speed of prefill and decode at given batch sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from deepinfer.bench.batch_times import BatchTimes, time_batch
from deepinfer.bench.prompt_file import Prompt
from deepinfer.bench.spread import Spread
from deepinfer.llm import LLM
from deepinfer.sampling_params import SamplingParams


@dataclass(frozen=True, slots=True)
class SpeedFigures:
    """Outcome of one batch size.

    Attributes:
        batch: prompts at a time.
        num_prompt_tokens, num_new_tokens: of one run, all prompts together.
        prefill_tokens_per_second, decode_tokens_per_second: see `BatchTimes`.
        tokens_per_second: new tokens over the whole call.
        first_token_seconds, step_seconds: see `BatchTimes`.
        tokens_per_step: new tokens of a decode step, over all sequences.
    """

    batch: int
    num_prompt_tokens: int
    num_new_tokens: int
    prefill_tokens_per_second: Spread
    decode_tokens_per_second: Spread
    tokens_per_second: Spread
    first_token_seconds: Spread
    step_seconds: Spread
    tokens_per_step: float

    @classmethod
    def of(cls, batch: int, runs: Sequence[BatchTimes]) -> SpeedFigures:
        """Over one or more runs of the same prompts."""

        def spread(figure: Callable[[BatchTimes], float]) -> Spread:
            return Spread.of([figure(run) for run in runs])

        return cls(
            batch=batch,
            num_prompt_tokens=runs[0].num_prompt_tokens,
            num_new_tokens=runs[0].num_new_tokens,
            prefill_tokens_per_second=spread(lambda run: run.prefill_tokens_per_second),
            decode_tokens_per_second=spread(lambda run: run.decode_tokens_per_second),
            tokens_per_second=spread(lambda run: run.num_new_tokens / run.seconds),
            first_token_seconds=spread(lambda run: run.first_token_seconds),
            step_seconds=spread(lambda run: run.step_seconds),
            tokens_per_step=runs[0].num_decode_tokens / runs[0].num_decode_steps,
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return {
            "batch": self.batch,
            "prompt_tokens": self.num_prompt_tokens,
            "new_tokens": self.num_new_tokens,
            "tokens_per_step": self.tokens_per_step,
            "prefill": self.prefill_tokens_per_second.to_dict("tokens_per_second"),
            "decode": self.decode_tokens_per_second.to_dict("tokens_per_second"),
            "overall": self.tokens_per_second.to_dict("tokens_per_second"),
            "first_token": self.first_token_seconds.to_dict("ms", 1e3),
            "decode_step": self.step_seconds.to_dict("ms", 1e3),
        }


def measure_speed(
    llm: LLM, batches: Sequence[Sequence[Prompt]], params: SamplingParams, repeats: int
) -> list[SpeedFigures]:
    """Run every batch once to warm up and then `repeats` times, in turns, so that whatever else the machine does hits
    all alike.

    Args:
        llm: with room for the largest batch.
        batches: prompts of each batch.
        params: of every prompt; at least two tokens each.
        repeats: timed runs of each.
    """
    for prompts in batches:
        time_batch(llm, prompts, params.replace(max_tokens=2))
    runs: list[list[BatchTimes]] = [[] for _ in batches]
    for _ in range(repeats):
        for prompts, results in zip(batches, runs, strict=True):
            results.append(time_batch(llm, prompts, params))
    return [SpeedFigures.of(len(prompts), results) for prompts, results in zip(batches, runs, strict=True)]
