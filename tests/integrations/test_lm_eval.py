"""The harness model: its numbers are LLM.score's, its texts LLM.generate's; two local tasks run without a network."""

import json
import os
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deepinfer import LLM, RequestError, SamplingParams
from deepinfer.cli.main import app

pytestmark = pytest.mark.bridge

BOS, USER, ASSISTANT = "<｜begin▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜></think>"
CITIES = {"Norway": "Oslo", "France": "Paris", "Japan": "Tokyo", "Spain": "Madrid"}
CHOICE_TASK = """
task: local_capitals
dataset_path: json
dataset_kwargs:
  data_files: {test: capitals.jsonl}
test_split: test
output_type: multiple_choice
doc_to_text: "<｜User｜>What is the capital of {{country}}?<｜Assistant｜></think>"
doc_to_choice: "{{choices}}"
doc_to_target: label
target_delimiter: ""
metric_list: [{metric: acc}]
metadata: {version: 1.0}
"""
WRITE_TASK = """
task: local_copies
dataset_path: json
dataset_kwargs:
  data_files: {test: copies.jsonl}
test_split: test
output_type: generate_until
doc_to_text: "<｜User｜>Repeat: {{words}}<｜Assistant｜></think>"
doc_to_target: "{{words}}"
generation_kwargs: {until: ["\\n"], max_gen_toks: 24}
metric_list: [{metric: exact_match}]
metadata: {version: 1.0}
"""


@pytest.fixture(scope="module")
def llm():
    with LLM(max_model_len=128) as engine:
        yield engine


@pytest.fixture(scope="module")
def model(llm):
    from deepinfer.integrations.lm_eval import DeepInferLM

    return DeepInferLM(llm)


def instances(kind: str, *arguments: tuple) -> list:
    from lm_eval.api.instance import Instance

    return [Instance(request_type=kind, doc={}, arguments=args, idx=i) for i, args in enumerate(arguments)]


def test_loglikelihoods_are_scores(llm: LLM, model) -> None:
    question = f"{BOS}{USER}What is the capital of Norway?{ASSISTANT}"
    pairs = [
        (question, "The capital of Norway is Oslo."),
        (question, "Lima"),
        ("Once upon a", " time"),
        ("", "The end"),
    ]
    found = model.loglikelihood(instances("loglikelihood", *pairs, ("the hou", "se")))
    expected = llm.score([context for context, _ in pairs], [text for _, text in pairs])
    assert found == [(logprob, is_greedy) for logprob, is_greedy, _ in expected] + [(0.0, True)]
    assert found[0][1] and not found[1][1]


def test_a_long_context_loses_its_beginning(llm: LLM, model, caplog: pytest.LogCaptureFixture) -> None:
    text, tokenizer = "word " * 300, llm.get_tokenizer()
    ((logprob, _),) = model.loglikelihood(instances("loglikelihood", (text, "and more")))
    context, continuation = tokenizer.encode_pair(text, "and more")
    kept = context[-(128 - len(continuation)) :]
    assert logprob == llm.score([kept], [continuation])[0][0]
    assert "loses all but" in caplog.text
    with pytest.raises(RequestError, match="max_model_len"):  # a continuation is never cut
        model.loglikelihood(instances("loglikelihood", ("a", text)))


def test_rolling_windows(llm: LLM, model) -> None:
    tokenizer, bos = llm.get_tokenizer(), llm.get_tokenizer().bos_token_id
    short, long = "Once upon a time there was a fox.", "The Congress of the United States has " * 40
    found = model.loglikelihood_rolling(instances("loglikelihood_rolling", (short,), (BOS + short,), (long,)))
    assert found[0] == found[1] == llm.score([[bos]], [tokenizer.encode(short)])[0][0]
    ids = tokenizer.encode(long)
    assert len(ids) > 2 * 127
    total, done, reach = 0.0, 0, 127  # every token once; a window's context is all that fits in front of it
    while done < len(ids):
        end = min(done + reach, len(ids))
        context = [bos, *ids[:done]][-(128 - (end - done)) :] if done == 0 else ids[end - 128 : done]
        total += llm.score([context], [ids[done:end]])[0][0]
        done = end
    assert found[2] == pytest.approx(total, rel=1e-12)


def test_generation(llm: LLM, model) -> None:
    question = f"{USER}Tell me a story about a fox.{ASSISTANT}"
    sampled = {"until": [], "max_gen_toks": 12, "do_sample": True, "temperature": 0.8, "seed": 3}
    found = model.generate_until(
        instances(
            "generate_until",
            (question, {"until": ["."], "max_gen_toks": 60}),
            (question, {"until": " ", "max_gen_toks": 60, "do_sample": False, "temperature": 0.9}),
            (question, sampled),
        )
    )
    params = [
        SamplingParams(temperature=0, max_tokens=60, stop=["."]),
        SamplingParams(temperature=0, max_tokens=60, stop=[" "]),
        SamplingParams(temperature=0.8, max_tokens=12, seed=3),
    ]
    assert found == [item.outputs[0].text for item in llm.generate([question] * 3, params, use_tqdm=False)]
    assert "." not in found[0] and " " not in found[1] and found[0]
    with pytest.raises(TypeError, match="temp"):
        model.generate_until(instances("generate_until", (question, {"temp": 1.0})))


def test_chat_format(model) -> None:
    history = [{"role": "user", "content": "Hi <｜User｜>"}]
    assert model.apply_chat_template(history) == f"{BOS}{USER}Hi <｜User｜>{ASSISTANT}"
    begun = [*history, {"role": "assistant", "content": "The answer is"}]
    assert model.apply_chat_template(begun, add_generation_prompt=False).endswith("</think>The answer is")
    assert model.tokenizer_name == "deepinfer__bundled"


@pytest.fixture(scope="module")
def task_files(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tasks")
    choices = [f"The capital of {country} is {{}}." for country in CITIES]
    rows = [
        {"country": country, "choices": [choice.format(city) for city in CITIES.values()], "label": label}
        for label, (country, choice) in enumerate(zip(CITIES, choices, strict=True))
    ]
    (folder / "capitals.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    copies = ["river lamp green", "seven Oslo bridge", "table Otto"]
    (folder / "copies.jsonl").write_text("\n".join(json.dumps({"words": words}) for words in copies))
    (folder / "capitals.yaml").write_text(CHOICE_TASK, "utf-8")
    (folder / "copies.yaml").write_text(WRITE_TASK, "utf-8")
    return folder


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*address: object) -> None:
        raise AssertionError(f"a connection to {address}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setenv("HF_HOME", str(tmp_path))


def test_local_tasks_run_offline(llm: LLM, task_files: Path, no_network: None) -> None:
    from deepinfer.integrations.harness_run import run_harness

    found = run_harness(llm, [task_files / "capitals.yaml", task_files / "copies.yaml"])
    assert found["results"]["local_capitals"]["acc,none"] == 1.0
    assert found["results"]["local_copies"]["exact_match,none"] == 1.0
    for sample in found["samples"]["local_capitals"]:
        contexts, continuations = zip(*sample["arguments"], strict=True)
        scores = llm.score(list(contexts), list(continuations))
        assert [(float(logprob), greedy) for logprob, greedy in sample["filtered_resps"]] == [
            (logprob, greedy) for logprob, greedy, _ in scores
        ]


def test_eval_command_runs_task_files(task_files: Path, tmp_path: Path, no_network: None) -> None:
    output = tmp_path / "samples.jsonl"
    command = ["eval", str(task_files / "copies.yaml"), "--limit", "2", "-o", str(output)]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1].split()[:3] == ["local_copies", "exact_match", "1.0000"]
    rows = [json.loads(line) for line in output.read_text("utf-8").splitlines()]
    assert [row["task"] for row in rows] == ["local_copies"] * 2
    (tmp_path / "wrong.yaml").write_text("task: [")
    before = os.getcwd()
    result = CliRunner().invoke(app, ["eval", str(tmp_path / "wrong.yaml")])
    assert result.exit_code == 2 and "wrong.yaml" in result.output and os.getcwd() == before
