"""The model runner: steps that are repeated, sequences that end during a step, prompt scores in bounded blocks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deepinfer import LLM, SamplingParams
from deepinfer.core.launched_step import LaunchedStep
from deepinfer.core.step_plan import StepPlan
from deepinfer.core.step_result import StepResult
from deepinfer.worker import model_runner
from tests.support.golden_case import GOLDEN

BASE: dict[str, Any] = {"speculative": "off", "max_model_len": 32, "block_size": 4, "overlap": False}


@pytest.fixture(scope="module")
def llm() -> Iterator[LLM]:
    options = {"max_num_seqs": 4, "block_size": 8, "max_model_len": 64, "speculative": "off", "overlap": False}
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


@pytest.mark.parametrize(
    "options",
    [
        {"backend": "reference", "numerics": "fp32"},
        {"backend": "cpu"},
        {"backend": "cpu", "speculative": {"num_drafts": 3}},
        {"backend": "cpu", "speculative": {"num_drafts": 3, "acceptance": "rejection"}, "batch_invariant": False},
    ],
    ids=["reference", "native", "drafts", "rejection"],
)
def test_a_sequence_that_ends_between_the_phases_gets_nothing(random_model: Path, options: dict[str, Any]) -> None:
    params = SamplingParams(temperature=0.9, seed=4, max_tokens=12, ignore_eos=True)
    prompts = [[5, 6, 7], [9, 8], [11]]
    with LLM(random_model, **{**BASE, **options}) as llm:
        expected = llm.generate(prompts, params, use_tqdm=False)
        engine, worker = llm._runtime.engine, llm._runtime.worker
        ended: list[StepResult] = []

        def execute(plan: StepPlan) -> LaunchedStep:
            worker.launch_forward(plan)
            is_it = plan.kind == "decode" and len(plan.seq_ids) == 3 and min(plan.output_indices.tolist()) >= 3
            if is_it:
                engine._scheduler.abort(int(plan.seq_ids[1]))
                worker.release([int(plan.seq_ids[1])])
                llm.abort("b")
            step = worker.launch_sample(plan)
            ended.extend([step.wait()] if is_it else [])
            return step

        worker.execute = execute  # type: ignore[method-assign]
        outputs = llm.generate(prompts, params, request_ids=["a", "b", "c"], use_tqdm=False)
    (result,) = ended
    assert [len(tokens) > 0 for tokens in result.samples] == [True, False, True] and not result.errors
    if result.draft_ids is not None:
        assert (result.draft_ids[1] == -1).all() and not result.confidences[1].any()
        assert (result.draft_ids[[0, 2]] >= 0).all()
    assert [output.outputs[0].finish_reason for output in outputs] == ["length", "abort", "length"]
    for output, wanted in zip(outputs, expected, strict=True):
        tokens = output.outputs[0].token_ids
        assert len(tokens) >= 3 and tokens == wanted.outputs[0].token_ids[: len(tokens)]


def test_the_second_phase_belongs_to_the_newest_first_phase(llm: LLM) -> None:
    runner = llm._runtime.worker._runner
    seen: list[StepPlan] = []
    forward = runner.forward
    runner.forward = lambda plan: (seen.append(plan), forward(plan))[1]  # type: ignore[method-assign]
    llm.generate([[5, 6]], SamplingParams(temperature=0, max_tokens=2), use_tqdm=False)
    del runner.forward  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match=f"no forward pass of step {seen[0].step_id}"):
        runner.sample(seen[0])
