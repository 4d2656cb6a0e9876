"""Engines on the cuda backend whose ops compare themselves with the reference on the same inputs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from deepinfer import LLM, SamplingParams
from deepinfer.check.checked_llm import CheckedLLM
from deepinfer.check.checked_ops import CheckedOps


@contextmanager
def checked_engine(*args: Any, **options: Any) -> Iterator[tuple[LLM, CheckedOps]]:
    with CheckedLLM(*args, device="cuda", backend="cuda", **options) as llm:
        yield llm, llm.checked


def assert_no_faults(llm: LLM, ops: CheckedOps, prompts: list[Any], params: SamplingParams) -> None:
    """Generates, prints the worst deviations and fails where one is beyond its limit."""
    ops.clear()
    outputs = llm.generate(prompts, params, use_tqdm=False)
    assert all(output.error is None for output in outputs), [output.error for output in outputs if output.error]
    for found in (ops.worst, ops.shares()):
        print(f"\n{len(prompts)} prompts:", {name: f"{value:.1e}" for name, value in sorted(found.items())})
    assert ops.worst and not ops.faults(), ops.faults()
