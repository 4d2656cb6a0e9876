"""The calling program's torch settings change no bit of a result, and are back after every step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import pytest
import torch

from deepinfer import LLM, SamplingParams
from deepinfer.worker.pinned_torch import pinned_torch
from tests.support.golden_case import GOLDEN, logprob_matrix

PARAMS = SamplingParams(temperature=0.7, seed=3, max_tokens=2, ignore_eos=True, logprobs=-1, prompt_logprobs=-1)
PROMPTS = [[5 + place] * (3 + 7 * place) for place in range(2)]
OPTIONS = {"max_num_seqs": 4, "max_model_len": 64, "numerics": "official"}


@contextmanager
def changed(change: Callable[[Any], Any], value: Any, normal: Any) -> Iterator[None]:
    change(value)
    try:
        yield
    finally:
        change(normal)


@contextmanager
def several() -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(changed(torch.set_default_dtype, torch.float64, torch.float32))
        stack.enter_context(changed(torch.use_deterministic_algorithms, True, False))
        stack.enter_context(changed(torch.set_num_threads, 3, 1))
        stack.enter_context(torch.inference_mode())
        yield


def settings() -> dict[str, AbstractContextManager[Any]]:
    return {
        "autocast": torch.autocast("cpu", dtype=torch.bfloat16),
        "precision": changed(torch.set_float32_matmul_precision, "medium", "highest"),
        "device": changed(torch.set_default_device, "meta", None),
        "device-scope": torch.device("meta"),
        "several": several(),
    }


def scores(llm: LLM) -> list[torch.Tensor]:
    outputs = llm.generate(PROMPTS, PARAMS, use_tqdm=False)
    with pinned_torch():  # the test's own arithmetic
        return [logprob_matrix(output, llm.get_tokenizer().size) for output in outputs]


@pytest.fixture(scope="module")
def llm() -> Iterator[LLM]:
    with LLM(GOLDEN / "nano-s1", **OPTIONS) as llm:
        yield llm


@pytest.fixture(scope="module")
def expected(llm: LLM) -> list[torch.Tensor]:
    return scores(llm)


def visible() -> tuple[Any, ...]:
    return (
        torch.is_autocast_enabled("cpu"),
        torch.get_float32_matmul_precision(),
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_default_device(),
        torch.is_inference_mode_enabled(),
        torch.is_grad_enabled(),
        torch.get_num_threads(),
    )


@pytest.mark.parametrize("name", settings())
def test_settings_of_the_caller_change_nothing(name: str, llm: LLM, expected: list[torch.Tensor]) -> None:
    normal = visible()
    with settings()[name]:
        seen = visible()
        with LLM(GOLDEN / "nano-s1", **OPTIONS) as inside:
            own = [scores(llm), scores(inside)]
        assert visible() == seen != normal
    for result in (*own, scores(llm)):
        assert all(torch.equal(a, b) for a, b in zip(result, expected, strict=True))


def test_settings_of_the_process_wait_for_the_last_step() -> None:
    """Two steps overlap in two threads; neither takes the other's settings for the caller's."""
    inside, leave = threading.Event(), threading.Event()

    def step() -> None:
        with pinned_torch():
            inside.set()
            leave.wait(10)

    with changed(torch.set_default_dtype, torch.float64, torch.float32):
        with pinned_torch():
            thread = threading.Thread(target=step)
            thread.start()
            inside.wait(10)
        assert torch.get_default_dtype() is torch.float32
        leave.set()
        thread.join()
        assert torch.get_default_dtype() is torch.float64


def test_an_exception_gives_the_settings_back() -> None:
    with several(), settings()["autocast"]:
        seen = visible()
        with pytest.raises(KeyboardInterrupt), pinned_torch(2):
            assert torch.get_num_threads() == 2 and torch.get_default_dtype() is torch.float32
            raise KeyboardInterrupt
        assert visible() == seen
