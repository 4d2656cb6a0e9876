"""When the tokens of a batch came: prefill and decode of requests that start together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from deepinfer.bench.prompt_file import Prompt
from deepinfer.llm import LLM
from deepinfer.sampling_params import SamplingParams


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """One run. Counts are those of all requests together.

    Attributes:
        seconds: the whole call, the making of the outputs included.
        first_token_seconds: from the arrival of the first request to the first token of the last one.
        decode_seconds: from there to the end of the last request.
        num_prompt_tokens: tokens of the prompts.
        num_new_tokens: new tokens.
        num_decode_tokens: those that decode steps gave: all but the first of each request.
        num_decode_steps: decode steps.
    """

    seconds: float
    first_token_seconds: float
    decode_seconds: float
    num_prompt_tokens: int
    num_new_tokens: int
    num_decode_tokens: int
    num_decode_steps: int

    @property
    def prefill_tokens_per_second(self) -> float:
        """Prompt tokens over the time to the last first token."""
        return self.num_prompt_tokens / self.first_token_seconds

    @property
    def decode_tokens_per_second(self) -> float:
        """Tokens of decode steps over their time."""
        return self.num_decode_tokens / self.decode_seconds

    @property
    def step_seconds(self) -> float:
        """Mean duration of a decode step, with what lies between steps."""
        return self.decode_seconds / self.num_decode_steps


def time_batch(llm: LLM, prompts: Sequence[Prompt], params: SamplingParams) -> BatchTimes:
    """Complete prompts of one call; all must succeed and get at least two tokens."""
    before, began = llm.stats(), time.perf_counter()
    outputs = llm.generate(list(prompts), params, use_tqdm=False, strict=True)
    seconds = time.perf_counter() - began
    metrics = [output.metrics for output in outputs]
    arrival = min(item.arrival_time or 0.0 for item in metrics)
    first_token = max(item.first_token_time or 0.0 for item in metrics)
    finished = max(item.finished_time or 0.0 for item in metrics)
    num_new_tokens = sum(item.num_generated_tokens for item in metrics)
    return BatchTimes(
        seconds=seconds,
        first_token_seconds=first_token - arrival,
        decode_seconds=finished - first_token,
        num_prompt_tokens=sum(item.num_prompt_tokens for item in metrics),
        num_new_tokens=num_new_tokens,
        num_decode_tokens=num_new_tokens - len(metrics),
        num_decode_steps=llm.stats().num_decode_steps - before.num_decode_steps,
    )
