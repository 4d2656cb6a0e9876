"""What comes from outside at odd places: signal handlers that raise, half characters, continuations without tokens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deepinfer import LLM, RequestError, SamplingParams
from deepinfer.engine.output_processor import OutputProcessor
from tests.support.golden_case import GOLDEN
from tests.support.table_engine import TableEngine

pytestmark = pytest.mark.usefixtures("overlaps")

GREEDY = SamplingParams(temperature=0, max_tokens=3, ignore_eos=True)


@pytest.fixture(scope="module")
def llm() -> Iterator[LLM]:
    with LLM(GOLDEN / "nano-s1", numerics="fp32", max_num_seqs=4, max_model_len=64) as llm:
        yield llm


@pytest.mark.parametrize("place", ["begin_step", "process"])
def test_an_exception_between_the_phases_leaves_the_engine_usable(
    llm: LLM, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (expected,) = llm.generate([[5, 6]], GREEDY, use_tqdm=False)

    def breaks(*arguments: object) -> None:
        raise TimeoutError("a signal handler")

    monkeypatch.setattr(OutputProcessor, place, breaks)
    with pytest.raises(TimeoutError):
        llm.generate([[9]], GREEDY, use_tqdm=False)
    monkeypatch.undo()
    (output,) = llm.generate([[5, 6]], GREEDY, use_tqdm=False)
    assert output.outputs[0].token_ids == expected.outputs[0].token_ids
    stats = llm.stats()
    assert stats.num_free_blocks == stats.num_blocks and stats.num_free_state_slots == stats.num_state_slots


def test_half_a_character_is_an_error_of_one_request(llm: LLM) -> None:
    good, bad, other = llm.generate(["ok", "a\udc80", "ok"], GREEDY, use_tqdm=False)
    assert bad.error is not None and bad.error.code == "invalid_prompt"
    assert good.error is None and good.outputs[0].token_ids == other.outputs[0].token_ids


@pytest.mark.parametrize("streaming", [False, True])
def test_the_mark_of_an_unfinished_character_can_complete_a_stop_string(streaming: bool) -> None:
    engine = TableEngine.build({1: 97, 97: 0xC3, 0xC3: 98}.__getitem__)
    params = SamplingParams(max_tokens=2, ignore_eos=True, stop="\ufffd")
    if streaming:
        deltas = engine.stream([[1]], params)
        text, end = "".join(delta.text for delta in deltas), deltas[-1]
    else:
        end = engine.run([[1]], params)[0].outputs[0]
        text = end.text
    assert (text, end.finish_reason, end.stop_reason) == ("a", "stop", "\ufffd")
    (plain,) = engine.run([[1]], params.replace(stop="x"))
    assert (plain.outputs[0].text, plain.outputs[0].finish_reason) == ("a\ufffd", "length")
    (included,) = engine.run([[1]], params.replace(include_stop_str_in_output=True))
    assert (included.outputs[0].text, included.outputs[0].finish_reason) == ("a\ufffd", "stop")


def test_a_continuation_that_merges_into_the_context_is_refused() -> None:
    with LLM(max_model_len=128, max_num_seqs=2) as mini, pytest.raises(RequestError, match="no token of its own"):
        mini.score(["The cat sat on th"], ["e"])
