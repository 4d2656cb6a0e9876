"""capture and replace on a real model: nesting, wrong names, patterns that match nothing."""

import logging
from collections.abc import Iterator

import pytest
import torch

from deepinfer import LLM, RequestError, SamplingParams
from deepinfer.worker.replace_points import replace_points
from tests.support.golden_case import GOLDEN

GREEDY = SamplingParams(temperature=0, max_tokens=1, ignore_eos=True)


@pytest.fixture(scope="module")
def llm() -> Iterator[LLM]:
    with LLM(GOLDEN / "nano-s1", numerics="fp32", max_num_seqs=4) as llm:
        yield llm


def output_of(llm: LLM, point: str) -> torch.Tensor:
    with llm.capture(f"{point}.out") as tap:
        (output,) = llm.generate([[5, 6]], GREEDY, use_tqdm=False)
    return tap.tensor(f"{point}.out", output.request_id)


def constant(value: float) -> object:
    return lambda original, x, ctx: torch.full_like(x, value)


def test_nested_replacements(llm: LLM) -> None:
    point = "layers.1.ffn"
    plain = output_of(llm, point)
    with llm.replace(point, constant(1.0)):
        assert output_of(llm, point).unique().tolist() == [1.0]
        with llm.replace(point, constant(2.0)):
            assert output_of(llm, point).unique().tolist() == [2.0]
        assert output_of(llm, point).unique().tolist() == [1.0]
    assert torch.equal(output_of(llm, point), plain)


def test_every_point_is_called_and_others_are_refused(llm: LLM) -> None:
    points = replace_points(llm._runtime.worker.model.runtime.config)
    called: set[str] = set()
    for point in points:
        note = lambda original, *rest, point=point: called.add(point) or original(*rest)  # noqa: E731
        with llm.replace(point, note):
            llm.generate([[5, 6]], GREEDY, use_tqdm=False)
    assert called == set(points) and any(point.endswith(".engram") for point in points)
    for wrong in ("layers.99.ffn", "layers.0.ffm", "logits"):
        with pytest.raises(RequestError, match="did you mean 'layers"), llm.replace(wrong, constant(0.0)):
            pass


def test_patterns_that_match_nothing_are_told(llm: LLM, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="deepinfer"):
        with llm.capture("logits", "layers.*.fnn.experts"):
            llm.generate([[5, 6]], GREEDY, use_tqdm=False)
        assert "'layers.*.fnn.experts'" in caplog.text and "'logits'" not in caplog.text
        caplog.clear()
        with llm.capture("logits"):
            llm.generate([[5, 6]], GREEDY, use_tqdm=False)
    assert caplog.text == ""
