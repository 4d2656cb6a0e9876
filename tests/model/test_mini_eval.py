"""The bundled trained checkpoint solves its evaluation set."""

from __future__ import annotations

import json
from collections import Counter
from importlib.resources import files

import pytest

from deepinfer import LLM, SamplingParams

ROWS = [json.loads(line) for line in (files("deepinfer") / "data/mini/eval.jsonl").read_text("utf-8").splitlines()]
REQUIRED = 309  # an independent implementation solves 316 of 376


@pytest.fixture(scope="module")
def llm() -> LLM:
    return LLM(max_model_len=1024)


def test_eval_rows(llm: LLM, capsys: pytest.CaptureFixture[str]) -> None:
    """A row counts when the greedy text is exactly the answer, ended by the stop token."""
    outputs = llm.generate([row["prompt"] for row in ROWS], SamplingParams(temperature=0, max_tokens=96))
    solved = Counter()
    for row, output in zip(ROWS, outputs, strict=True):
        completion = output.outputs[0]
        solved[row["task"]] += completion.text == row["answer"] and completion.finish_reason == "stop"
    scores = llm.score([row["prompt"] for row in ROWS], [row["answer"] for row in ROWS])
    num_tokens = sum(len(logprobs) for _, _, logprobs in scores)
    loss = -sum(total for total, _, _ in scores) / num_tokens
    with capsys.disabled():
        print(
            f"\neval: {sum(solved.values())} of {len(ROWS)} rows, mean loss {loss:.4f} over {num_tokens} answer tokens"
        )
        print(", ".join(f"{task} {count}" for task, count in sorted(solved.items())))
    assert sum(solved.values()) >= REQUIRED
    assert sum(is_greedy for _, is_greedy, _ in scores) >= sum(solved.values())
