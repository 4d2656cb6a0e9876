"""Collects judged drafts over prompts and fits the confidence temperatures to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from deepinfer.bench.draft_counts import DraftCounts
from deepinfer.bench.prompt_file import Prompt
from deepinfer.bench.temperature_fit import TemperatureFit, fit_temperatures
from deepinfer.errors import ConfigError
from deepinfer.llm import LLM
from deepinfer.sampling_params import SamplingParams

_HELD_OUT_EVERY: Final = 3


def calibrate(llm: LLM, prompts: Sequence[Prompt], params: SamplingParams) -> TemperatureFit:
    """Let an engine continue the prompts, every third of them held out.

    Args:
        llm: with drafts on, all of them verified, confidence temperatures 1.
        prompts: at least three.
        params: of every prompt; drafts should be judged as they will be later.

    Raises ConfigError when no draft was judged, and the request's own error when a prompt fails.
    """
    fitted = [prompt for place, prompt in enumerate(prompts) if place % _HELD_OUT_EVERY != _HELD_OUT_EVERY - 1]
    held_out = [prompt for place, prompt in enumerate(prompts) if place % _HELD_OUT_EVERY == _HELD_OUT_EVERY - 1]
    if not held_out:
        raise ConfigError(f"{len(prompts)} prompts are too few to hold some out; at least {_HELD_OUT_EVERY}")
    parts = [_run(llm, part, params) for part in (fitted, held_out)]
    if not all(part.calibration.num_judged for part in parts):
        raise ConfigError("no draft was judged: drafts are off, or the outputs are too short")
    return fit_temperatures(parts[0].calibration, parts[1].calibration)


def _run(llm: LLM, prompts: Sequence[Prompt], params: SamplingParams) -> DraftCounts:
    before = llm.stats()
    llm.generate(list(prompts), params, use_tqdm=False, strict=True)
    return DraftCounts.between(before, llm.stats())
