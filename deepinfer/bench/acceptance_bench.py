"""How many tokens a verifying step gives, over sets of prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deepinfer.bench.draft_counts import DraftCounts
from deepinfer.bench.prompt_file import Prompt
from deepinfer.llm import LLM
from deepinfer.sampling_params import SamplingParams


def measure_acceptance(
    llm: LLM, prompt_sets: Mapping[str, Sequence[Prompt]], params: SamplingParams
) -> dict[str, DraftCounts]:
    """Complete each set of prompts and count what became of the drafts, by the set's name."""
    counts = {}
    for name, prompts in prompt_sets.items():
        before = llm.stats()
        llm.generate(list(prompts), params, use_tqdm=False, strict=True)
        counts[name] = DraftCounts.between(before, llm.stats())
    return counts
