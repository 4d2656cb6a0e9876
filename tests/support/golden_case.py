"""Golden data: checkpoints with random weights and what an independent implementation computes on them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from deepinfer import LLM, RequestOutput, SamplingParams
from deepinfer.outputs.logprob import Logprob
from deepinfer.outputs.vocabulary_logprobs import VocabularyLogprobs

GOLDEN = Path(__file__).parent.parent / "golden"
CASES: list[str] = json.loads((GOLDEN / "cases.json").read_text())


@dataclass(frozen=True)
class GoldenCase:
    """One case: prompt, greedy continuation, and tensors over the fed positions S = prompt + new - 1."""

    name: str
    prompt: list[int]
    greedy: list[int]
    greedy_lead: list[float]
    margins: np.ndarray
    tensors: dict[str, torch.Tensor]

    @classmethod
    def load(cls, name: str) -> GoldenCase:
        meta = json.loads((GOLDEN / f"{name}.json").read_text())
        tensors = load_file(GOLDEN / f"{name}.safetensors")
        margins = np.array(meta["smallest_margin_per_position"])
        return cls(name, meta["prompt"], meta["greedy"], meta["greedy_lead"], margins, tensors)

    @property
    def checkpoint(self) -> Path:
        return GOLDEN / self.name.split("-plain-")[0].split("-rounding-")[0]

    @property
    def num_positions(self) -> int:
        return self.tensors["logits"].shape[0]

    def sharp_positions(self) -> int:
        """Positions before the first near tie (margin below 1e-5): only these are defined to the tolerance."""
        near_ties = np.flatnonzero(self.margins < 1e-5)
        return int(near_ties[0]) if len(near_ties) else self.num_positions

    def expected_logprobs(self) -> torch.Tensor:
        return torch.log_softmax(self.tensors["logits"].double(), dim=-1).float()


def run_case(llm: LLM, case: GoldenCase) -> RequestOutput:
    """The case's greedy run with the log-probabilities of the whole vocabulary at every position."""
    params = SamplingParams(
        temperature=0, max_tokens=len(case.greedy), ignore_eos=True, logprobs=-1, prompt_logprobs=-1
    )
    (output,) = llm.generate([case.prompt], params, use_tqdm=False)
    assert output.error is None, output.error
    return output


def logprob_matrix(output: RequestOutput, vocab_size: int) -> torch.Tensor:
    """float32 [S, vocab]: row p judges the token at position p + 1, over prompt and generated tokens."""
    completion = output.outputs[0]
    assert output.prompt_logprobs is not None and completion.logprobs is not None
    rows = [entry for entry in output.prompt_logprobs if entry is not None] + list(completion.logprobs)
    return torch.stack([_whole_row(row, vocab_size) for row in rows])


def _whole_row(position: Mapping[int, Logprob], vocab_size: int) -> torch.Tensor:
    if isinstance(position, VocabularyLogprobs):
        return torch.from_numpy(position.row)
    row = torch.empty(vocab_size)
    row[list(position)] = torch.tensor([entry.logprob for entry in position.values()])
    return row
