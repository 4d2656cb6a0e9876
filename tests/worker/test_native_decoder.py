"""Ends of decode steps as one native call: the same as part by part, where nothing but the logits decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from deepinfer import LLM, SamplingParams
from deepinfer.checkpoint.writer import write_random_checkpoint
from deepinfer.core.step_plan import StepPlan
from deepinfer.core.step_result import StepResult
from deepinfer.worker.model_runner import ModelRunner
from tests.support.golden_case import GOLDEN
from tests.support.tiny_config import tiny_config

PROMPTS = [[5, 6, 7], [9, 8, 7, 6, 5], [11]]
GREEDY = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True)
DRAWN = SamplingParams(temperature=0.9, top_p=0.9, top_k=30, min_p=0.01, seed=3, max_tokens=24, ignore_eos=True)


class Runs:
    """Notes which steps ended in one call; with `is_off` none does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_off = False
        self.steps: list[tuple[str, bool]] = []
        natively, choose = ModelRunner.samples_natively, ModelRunner._choose

        def samples_natively(runner: ModelRunner, plan: StepPlan) -> bool:
            whole = not self.is_off and natively(runner, plan)
            self.steps.append((plan.kind, whole))
            return whole

        def chooses(runner: ModelRunner, plan: StepPlan, forwarded: Any) -> StepResult:
            self.steps[-1] = (plan.kind, False)
            return choose(runner, plan, forwarded)

        monkeypatch.setattr(ModelRunner, "samples_natively", samples_natively)
        monkeypatch.setattr(ModelRunner, "_choose", chooses)

    def shares(self) -> set[bool]:
        """Whether decode steps ended in one call, of those since the last look."""
        found = {is_whole for kind, is_whole in self.steps if kind == "decode"}
        self.steps.clear()
        return found


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(monkeypatch)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiny")
    write_random_checkpoint(tiny_config(dspark_target_layer_ids=[7, 2]), path, seed=3)
    return path


def engine(path: Path, **options: Any) -> LLM:
    defaults: dict[str, Any] = {"backend": "cpu", "max_model_len": 32, "block_size": 4, "max_num_seqs": 4}
    return LLM(path, **(defaults | options))


def outcomes(llm: LLM, params: list[SamplingParams]) -> list[Any]:
    outputs = llm.generate(PROMPTS, params, use_tqdm=False, strict=True)
    parts = [output.outputs[0] for output in outputs]
    return [(p.token_ids, p.finish_reason, p.stop_reason, p.num_accepted_tokens, p.confidence) for p in parts]


@pytest.mark.parametrize("speculative", ["off", {"num_drafts": 3, "report_confidences": True}])
def test_equals_part_by_part(speculative: Any, checkpoint: Path, runs: Runs) -> None:
    """Tokens, stops and drafts, up to the end of the model's positions."""
    with engine(checkpoint, speculative=speculative) as llm:
        free = outcomes(llm, [GREEDY, DRAWN, GREEDY])
        stops = [free[0][0][4], free[1][0][6]]
        params = [
            [GREEDY, DRAWN, GREEDY.replace(max_tokens=31)],
            [GREEDY.replace(stop_token_ids=stops[:1]), DRAWN.replace(stop_token_ids=stops[1:], n=1), GREEDY],
            [GREEDY.replace(stop_token_ids=stops[:1], min_tokens=3), DRAWN.replace(golden_token_ids=(4, 5)), GREEDY],
        ]
        whole = [outcomes(llm, item) for item in params]
        assert True in runs.shares()
        runs.is_off = True
        assert [outcomes(llm, item) for item in params] == whole
        assert runs.shares() == {False}
        assert whole[1][0][1] == "stop" and len(whole[1][0][0]) < 24


def test_accepted_drafts(runs: Runs) -> None:
    """A model whose drafts are often right: several tokens a step, and nothing behind a stop."""
    params = SamplingParams(temperature=0, max_tokens=40, ignore_eos=True)
    with LLM(backend="cpu", max_model_len=256, speculative={"varlen": False}) as llm:
        text = llm.generate("Question: What is 2 + 3?", params, use_tqdm=False)[0].outputs[0]
        assert runs.shares() == {True} and text.num_accepted_tokens > 0
        stop = text.token_ids[20]
        cut = llm.generate("Question: What is 2 + 3?", params.replace(stop_token_ids=[stop]), use_tqdm=False)[0]
        assert cut.outputs[0].token_ids == text.token_ids[: text.token_ids.index(stop) + 1]
        runs.is_off = True
        again = llm.generate("Question: What is 2 + 3?", params, use_tqdm=False)[0].outputs[0]
        assert again.token_ids == text.token_ids and again.num_accepted_tokens == text.num_accepted_tokens


@pytest.mark.parametrize(
    "change",
    [{"logprobs": 0}, {"repetition_penalty": 1.1}, {"logit_bias": {5: 1.0}}, {"min_tokens": 24, "stop_token_ids": [7]}],
)
def test_leaves_other_steps_alone(change: dict[str, Any], checkpoint: Path, runs: Runs) -> None:
    """One sequence that wants more than the logits' token decides for all of its steps."""
    with engine(checkpoint, speculative="off") as llm:
        outcomes(llm, [GREEDY, GREEDY.replace(**change), GREEDY])
    assert runs.shares() == {False}


def test_takes_over_where_nothing_is_forced_any_more(checkpoint: Path, runs: Runs) -> None:
    with engine(checkpoint, speculative="off") as llm:
        outcomes(llm, [GREEDY, GREEDY.replace(golden_token_ids=(4, 5, 6)), GREEDY])
        taken = [is_whole for kind, is_whole in runs.steps if kind == "decode"]
    assert taken == [False, False] + [True] * (len(taken) - 2)


def test_rejection_sampling_runs_part_by_part(checkpoint: Path, runs: Runs) -> None:
    with engine(checkpoint, batch_invariant=False, speculative={"num_drafts": 3, "acceptance": "rejection"}) as llm:
        outcomes(llm, [GREEDY, DRAWN, GREEDY])
    assert runs.shares() == {False}


def test_row_without_a_token_is_told_like_part_by_part(runs: Runs) -> None:
    """NaN logits: the step's end comes to the sampler, which ends that sequence with its error."""
    with LLM(GOLDEN / "nano-s1", backend="cpu", speculative="off", max_model_len=64) as llm:
        stream = llm.stream([[5, 6, 7]], GREEDY)
        next(stream)
        runner = llm._runtime.worker._runner
        assert runner is not None and runner._decoder is not None
        runner._decoder._model._tensors["head.weight"].fill_(torch.nan)
        last = list(stream)[-1]
    assert last.finish_reason == "error" and last.error is not None
    assert runs.shares() == {False}


def test_steps_leave_no_draft_context_while_drafts_do_not_pay(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are dear under this curve; tokens are those without drafts."""
    kept: list[bool] = []
    original = ModelRunner.forward

    def forward(runner: ModelRunner, plan: StepPlan) -> None:
        if plan.kind == "decode":
            kept.append(plan.keeps_draft_context)
        original(runner, plan)

    monkeypatch.setattr(ModelRunner, "forward", forward)
    dear = {"step": [[3, 1.0], [4, 100.0], [16, 1000.0]], "draft": [[4, 100.0]]}
    tokens = []
    for speculative in ("off", {"cost_curve": dear}, {"varlen": False}):
        kept.clear()
        with engine(checkpoint, speculative=speculative) as llm:
            tokens.append([outcome[:3] for outcome in outcomes(llm, [GREEDY, DRAWN, GREEDY])])
    assert tokens[0] == tokens[1] == tokens[2]
    assert kept and all(kept)
    with engine(checkpoint, speculative={"cost_curve": dear}) as llm:
        kept.clear()
        outcomes(llm, [GREEDY, DRAWN, GREEDY])
        assert kept and not any(kept)
