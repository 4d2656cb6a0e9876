"""Records which experts a model chooses, as loads of decode steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from deepinfer.bench.prompt_file import Prompt
from deepinfer.sampling_params import SamplingParams

if TYPE_CHECKING:
    from deepinfer.llm import LLM

_EXPERTS = "layers.*.ffn.experts"


def record_routing(
    llm: LLM, prompts: Sequence[Prompt], params: SamplingParams, *, batch: int, num_experts: int
) -> npt.NDArray[np.int64]:
    """Let a model answer prompts, `batch` at a time, and count what its routers chose.

    A step holds the k-th generated token of all prompts of a batch that got so far; prefill is not counted.

    Args:
        llm: any engine.
        prompts: in their order.
        params: of every prompt.
        batch: prompts at a time.
        num_experts: routed experts of a layer.

    Returns:
        int64 [steps, layers, num_experts]: tokens of each expert.
    """
    steps: list[npt.NDArray[np.int64]] = []
    for start in range(0, len(prompts), batch):
        steps += _batch_steps(llm, prompts[start : start + batch], params, num_experts)
    return np.array(steps, np.int64)


def _batch_steps(
    llm: LLM, prompts: Sequence[Prompt], params: SamplingParams, num_experts: int
) -> list[npt.NDArray[np.int64]]:
    with llm.capture(_EXPERTS) as tap:
        outputs = llm.generate(list(prompts), params, use_tqdm=False, strict=True)
    names = sorted(tap.names(), key=lambda name: int(name.split(".")[1]))
    # The last token of an answer is never fed, so k tokens mean k - 1 decode steps.
    num_steps = max(len(output.outputs[0].token_ids) for output in outputs) - 1
    loads = np.zeros((max(0, num_steps), len(names), num_experts), np.int64)
    for layer, name in enumerate(names):
        for output in outputs:
            chosen = tap.tensor(name, output.request_id).numpy()
            positions = tap.positions(name, output.request_id)
            step_of_row = positions - len(output.prompt_token_ids)
            is_decoded = step_of_row >= 0
            rows = np.repeat(step_of_row[is_decoded], chosen.shape[1])
            np.add.at(loads[:, layer], (rows, chosen[is_decoded].reshape(-1)), 1)
    return list(loads)
