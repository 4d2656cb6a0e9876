"""One bad request never fails a call: odd prompts, odd parameters, odd ids, odd aborts."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from deepinfer import LLM, RequestError, SamplingParams
from deepinfer.engine.prompt_encoder import PromptEncoder, split_prompts
from tests.engine.hostile_objects import Hostile, HostileDict, HostileText, hostile_prompts
from tests.support.golden_case import GOLDEN
from tests.support.table_engine import TableEngine, byte_tokenizer, perm_tokens

pytestmark = pytest.mark.usefixtures("overlaps")

GREEDY = SamplingParams(temperature=0, max_tokens=3, ignore_eos=True)


@pytest.fixture(scope="module")
def llm() -> Iterator[LLM]:
    with LLM(GOLDEN / "nano-s1", numerics="fp32", max_num_seqs=4, max_model_len=64) as llm:
        yield llm


BAD_PROMPTS = [
    *hostile_prompts(),
    {"prompt": "a", "multi_modal_data": np.zeros((2, 2))},
    {"prompt": "a", "images": torch.zeros(2)},
    bytearray(b"ab"),
    memoryview(b"ab"),
    b"ab",
    {"prompt_token_ids": bytearray(b"ab")},
    {"prompt_token_ids": memoryview(b"ab")},
    torch.tensor([1.0]),
    torch.tensor([True]),
    torch.tensor([[1, 2]]),
    torch.tensor(5),
    np.array(5),
    np.array([1, 2], dtype=object),
    iter([1]),
    {1, 2},
    [[1], [2]],
]


def test_bad_prompts_are_errors_of_their_own() -> None:
    prompts = [[10], *BAD_PROMPTS, [11]]
    for streaming in (False, True):
        engine = TableEngine.build()
        if streaming:
            deltas = engine.stream(prompts, GREEDY)
            failed = {delta.prompt_index for delta in deltas if delta.error is not None}
            last = [token for delta in deltas if delta.prompt_index == len(prompts) - 1 for token in delta.token_ids]
        else:
            outputs = engine.run(prompts, GREEDY)
            failed = {place for place, output in enumerate(outputs) if output.error is not None}
            assert all(outputs[place].error.message for place in failed)
            last = outputs[-1].outputs[0].token_ids
        assert failed == set(range(1, len(prompts) - 1))
        assert last == perm_tokens(11, 3)


def test_what_an_object_raises_is_named() -> None:
    engine = TableEngine.build()
    (output,) = engine.run([HostileDict(prompt="a")], GREEDY)
    assert output.error.code == "invalid_prompt" and "ArithmeticError" in output.error.message
    with pytest.raises(RequestError, match="prompt 1: .*ArithmeticError"):
        engine.batch([[1], HostileDict(prompt="a")], GREEDY).raise_first_error()
    assert not engine.worker.plans


@pytest.mark.parametrize(
    ("prompt", "ids"),
    [
        (torch.tensor([1, 2]), [1, 2]),
        (torch.tensor([3], dtype=torch.int32), [3]),
        (torch.tensor([1, 2, 3, 4])[::2], [1, 3]),
        (np.array([1, 2], np.uint16), [1, 2]),
        (range(3), [0, 1, 2]),
        (array("i", [4, 5]), [4, 5]),
        ({"prompt_token_ids": torch.tensor([7])}, [7]),
        ({"prompt": "a", "multi_modal_data": {}, "images": []}, [259, 97]),
        (HostileText("a"), [259, 97]),
        (np.str_("a"), [259, 97]),
    ],
    ids=range(10),
)
def test_arrays_of_integers_are_ids(prompt: Any, ids: list[int]) -> None:
    assert PromptEncoder(byte_tokenizer(), 300, None).encode(prompt).token_ids.tolist() == ids


def test_arrays_as_all_prompts() -> None:
    for arrays in (np.array([[1, 2], [3, 4]]), torch.tensor([[1, 2], [3, 4]])):
        assert [list(map(int, prompt)) for prompt in split_prompts(arrays)] == [[1, 2], [3, 4]]
    assert len(split_prompts(torch.tensor([1, 2]))) == 1
    assert split_prompts(np.array(["a", "b"])) == ["a", "b"]


@pytest.mark.parametrize("prompts", [np.array(5), torch.tensor(5), bytearray(b"a"), memoryview(b"a"), Hostile])
def test_what_cannot_be_prompts_is_refused_as_a_whole(llm: LLM, prompts: Any) -> None:
    with pytest.raises(RequestError, match="expected a text"):
        llm.generate(prompts, GREEDY, use_tqdm=False)


@pytest.mark.parametrize(
    "params",
    [{"n": Hostile()}, {"stop": Hostile()}, {"temperature": Hostile()}, {"logit_bias": np.zeros(3)}, Hostile(), 5],
    ids=range(6),
)
def test_bad_parameters_of_one_request(llm: LLM, params: Any) -> None:
    good, bad = llm.generate([[5], [6]], [GREEDY, params], use_tqdm=False)
    assert good.error is None and bad.error is not None


def test_structured_outputs_of_one_request(llm: LLM) -> None:
    wrong = [GREEDY.replace(structured_outputs=value) for value in (Hostile(), {"json": {"type": Hostile()}})]
    good, *bad = llm.generate([[5], [6], [7]], [GREEDY, *wrong], use_tqdm=False)
    assert good.error is None and all(output.error is not None for output in bad)


def test_request_ids_that_are_no_list(llm: LLM) -> None:
    with pytest.raises(RequestError, match="request_ids is a int"):
        llm.generate([[5]], GREEDY, request_ids=5, use_tqdm=False)  # type: ignore[arg-type]


def test_bad_conversations_are_errors_of_their_own() -> None:
    with LLM(max_num_seqs=2, max_model_len=64) as mini:
        good = [{"role": "user", "content": "Hello!"}]
        bad = [
            [{"role": "user", "content": "x", "name": np.zeros(2), "extra": np.zeros(2)}],
            [{"role": Hostile(), "content": "x"}],
            [{"role": "user", "content": Hostile()}],
            [{"role": "assistant", "content": "x", "tool_calls": Hostile()}],
            [HostileDict(role="user")],
            Hostile(),
        ]
        outputs = mini.chat([good, *bad], GREEDY, use_tqdm=False)
    assert [output.error is not None for output in outputs] == [False, *[True] * len(bad)]


def test_hooks_and_abort_say_what_they_take(llm: LLM) -> None:
    for call in (lambda: llm.abort({}), lambda: llm.abort(5)):  # type: ignore[arg-type, return-value]
        with pytest.raises(TypeError, match="abort"):
            call()
    for manager in (llm.capture(5), llm.capture("a", {}), llm.capture()):  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="capture"), manager:
            pass
    for replacement in (llm.replace(5, abs), llm.replace("layers.0.ffn", 5)):  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="replace"), replacement:
            pass
    assert llm.generate([[5]], GREEDY, use_tqdm=False)[0].error is None


def test_an_abort_means_requests_known_when_it_is_called() -> None:
    engine = TableEngine.build()

    def abort_unknown(plan: object) -> None:
        thread = threading.Thread(target=engine.loop.abort, args=(["job0", "absent"],))
        thread.start()
        thread.join()

    engine.worker.on_execute = abort_unknown
    first = dict(engine.batch([[10]], GREEDY).finished())
    engine.worker.on_execute = lambda plan: None
    second = dict(engine.batch([[10]], GREEDY, prefix="job").finished())
    for outputs in (first, second):
        assert outputs[0].outputs[0].token_ids == perm_tokens(10, 3)
    engine.assert_idle()


def test_an_abort_of_an_ended_request_spares_the_next_one_of_that_id() -> None:
    engine = TableEngine.build()
    stream = engine.batch([[20]], GREEDY.replace(max_tokens=20), streaming=True, prefix="other").deltas()

    def abort_ending(plan: object) -> None:
        if len(engine.worker.plans) == 2:  # the request's last step: it ends before the abort is carried out
            thread = threading.Thread(target=engine.loop.abort, args=(["0"],))
            thread.start()
            thread.join()

    engine.worker.on_execute = abort_ending
    next(stream)
    ((_, ended),) = engine.batch([[10]], GREEDY.replace(max_tokens=2)).finished()
    ((_, again),) = engine.batch([[11]], GREEDY).finished()
    tokens = ended.outputs[0].token_ids  # overlapped: the abort may come before the last step is booked
    assert tokens in ([perm_tokens(10, 2)] if not TableEngine.overlaps else [perm_tokens(10, 1), perm_tokens(10, 2)])
    assert again.outputs[0].finish_reason == "length" and again.outputs[0].token_ids == perm_tokens(11, 3)
    list(stream)
    engine.assert_idle()
