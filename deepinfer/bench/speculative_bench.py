"""Drafts off, fixed and scheduled, side by side: throughput and acceptance of the same prompts in one run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from deepinfer.bench.draft_counts import DraftCounts
from deepinfer.bench.draft_mode import DraftMode
from deepinfer.bench.prompt_file import Prompt
from deepinfer.llm import LLM
from deepinfer.sampling_params import SamplingParams


@dataclass(frozen=True, slots=True)
class ModeFigures:
    """One mode's outcome.

    Attributes:
        mode: the mode.
        tokens_per_second: median over the repeats, prefill included.
        ratio_to_off: median over the repeats of this mode's throughput over that of drafts off in the same repeat.
        counts: of one repeat; all are the same where nothing depends on the clock.
    """

    mode: DraftMode
    tokens_per_second: float
    ratio_to_off: float
    counts: DraftCounts

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return {
            "mode": self.mode.value,
            "tokens_per_second": self.tokens_per_second,
            "ratio_to_off": self.ratio_to_off,
            **self.counts.to_dict(),
        }


def compare_modes(
    options: Callable[[DraftMode], dict[str, Any]],
    prompts: Callable[[LLM], Sequence[Prompt]],
    params: SamplingParams,
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> list[ModeFigures]:
    """Run every mode `repeats` times, in turns, so that whatever else the machine does hits all alike.

    Args:
        options: mode -> arguments of its engine. All engines exist at the same time.
        prompts: engine -> what it completes.
        params: of every prompt.
        repeats: timed runs of each mode, after one that warms up.
        clock: seconds.

    Raises a prompt's own error when it fails.
    """
    modes = list(DraftMode)
    speeds: dict[DraftMode, list[float]] = {mode: [] for mode in modes}
    counts: dict[DraftMode, DraftCounts] = {}
    with ExitStack() as stack:
        engines = {mode: stack.enter_context(LLM(**options(mode))) for mode in modes}
        batch = list(prompts(engines[DraftMode.OFF]))
        for mode in modes:
            engines[mode].generate(batch, params.replace(max_tokens=8), use_tqdm=False, strict=True)
        for repeat in range(repeats):
            for mode in modes[repeat % len(modes) :] + modes[: repeat % len(modes)]:
                before, began = engines[mode].stats(), clock()
                engines[mode].generate(batch, params, use_tqdm=False, strict=True)
                seconds = clock() - began
                counts[mode] = DraftCounts.between(before, engines[mode].stats())
                speeds[mode].append(counts[mode].num_tokens / seconds)
    return [_figures(mode, speeds[mode], speeds[DraftMode.OFF], counts[mode]) for mode in modes]


def _figures(mode: DraftMode, speeds: list[float], off: list[float], counts: DraftCounts) -> ModeFigures:
    ratios = [speed / base for speed, base in zip(speeds, off, strict=True)]
    return ModeFigures(mode, statistics.median(speeds), statistics.median(ratios), counts)
