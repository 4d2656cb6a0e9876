"""The model runner: steps that are repeated, and prompt scores in bounded blocks."""

from collections.abc import Iterator

import pytest

from deepinfer import LLM, SamplingParams
from deepinfer.worker import model_runner
from tests.support.golden_case import GOLDEN


@pytest.fixture(scope="module")
def llm() -> Iterator[LLM]:
    options = {"max_num_seqs": 4, "block_size": 8, "max_model_len": 64, "speculative": "off"}
    with LLM(GOLDEN / "nano-s1", numerics="fp32", **options) as llm:
        yield llm


@pytest.mark.parametrize(
    "penalties",
    [{"frequency_penalty": 2.0}, {"presence_penalty": 2.0}, {"repetition_penalty": 3.0}, {"logits_processors": True}],
)
def test_a_step_that_fails_behind_sampling_repeats_with_the_same_history(
    llm: LLM, penalties: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, ...]] = []
    if "logits_processors" in penalties:
        penalties = {"logits_processors": [lambda generated, row: seen.append(tuple(generated)) or row]}
    params = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True, **penalties)
    (expected,) = llm.generate([[5, 6]], params, use_tqdm=False)
    stream = llm.stream([[5, 6]], params)
    tokens = [token for _ in range(3) for token in next(stream).token_ids]
    chooser = llm._runtime.worker._runner._chooser
    plain = chooser.choose

    def fails(*arguments: object) -> object:
        plain(*arguments)
        raise OSError("behind sampling")

    for _ in range(2):
        monkeypatch.setattr(chooser, "choose", fails)
        with pytest.raises(OSError, match="behind sampling"):
            llm.generate([[9]], params, use_tqdm=False)
        with pytest.raises(OSError, match="behind sampling"):
            llm._runtime.engine.step()  # the stream's own decode step
        monkeypatch.undo()
    seen.clear()
    tokens += [token for delta in stream for token in delta.token_ids]
    assert tokens == expected.outputs[0].token_ids
    assert [len(history) for history in seen] == ([] if not seen else list(range(3, 12)))


def test_prompt_scores_are_made_in_bounded_blocks(llm: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    params = SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=2)
    (whole,) = llm.generate([list(range(5, 25))], params, use_tqdm=False)
    sizes: list[int] = []
    executor = llm._runtime.worker._runner._executor
    plain = executor.logits
    monkeypatch.setattr(executor, "logits", lambda rows: sizes.append(len(rows)) or plain(rows))
    monkeypatch.setattr(model_runner, "rows_per_block", lambda vocab_size: 6)
    (blocked,) = llm.generate([list(range(5, 25))], params, use_tqdm=False)
    assert sizes == [6, 6, 6, 1, 1] and blocked.prompt_logprobs == whole.prompt_logprobs
