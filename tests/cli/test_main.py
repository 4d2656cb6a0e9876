"""The command line: commands, JSON output and exit codes."""

import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import deepinfer
from deepinfer.cli.main import app
from tests.support.golden_case import GOLDEN

MODEL = ["--model", str(GOLDEN / "nano-s1"), "--numerics", "fp32"]


def invoke(*arguments: str, stdin: str | None = None, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments), input=stdin, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stdout


def test_generate_prints_text_or_json() -> None:
    options = [*MODEL, "--max-tokens", "3", "--temperature", "0"]
    assert "3 tokens" in invoke("generate", "ab", *options)
    rows = [json.loads(line) for line in invoke("generate", "ab", "cd", *options, "--json").splitlines()]
    assert [row["prompt"] for row in rows] == ["ab", "cd"]
    assert all(len(row["outputs"][0]["token_ids"]) == 3 and row["error"] is None for row in rows)
    (row,) = [json.loads(line) for line in invoke("generate", "-", *options, "--json", stdin="ab").splitlines()]
    assert row["outputs"][0]["token_ids"] == rows[0]["outputs"][0]["token_ids"]
    text = invoke("generate", "ab", *options, "--device", "cpu", "--backend", "reference", "--json")
    assert json.loads(text)["metrics"]["backend"] == "reference"


def test_chat_streams_answers_and_remembers() -> None:
    talk = "What is the capital of Norway?\nWhat is the capital of Norway?\n\nnever read\n"
    lines = invoke("chat", "--temperature", "0", "--max-tokens", "12", stdin=talk).splitlines()
    assert len(lines) == 2 and "Oslo" in lines[0]
    invoke("chat", "--effort", "lots", stdin="hi\n", code=2)
    invoke("chat", "--model", "/nowhere/at/all", stdin="hi\n", code=3)


def test_exit_codes() -> None:
    long = "ab" * 400
    rows = invoke("generate", "a", long, *MODEL, "--max-model-len", "64", "--json", code=1).splitlines()
    assert json.loads(rows[1])["error"]["code"] == "prompt_too_long"
    invoke("generate", code=2)
    invoke("generate", "a", *MODEL, "--temperature", "-1", code=2)
    invoke("generate", "a", *MODEL[:2], "--numerics", "fp16", code=2)
    invoke("generate", "a", "--model", "/nowhere/at/all", code=3)
    invoke("generate", "a", *MODEL, "--engine", "data_parallel_size=0", code=2)
    for command in ("generate", "a"), ("chat",):
        invoke(*command, *MODEL, "--backend", "none", code=2)
        invoke(*command, *MODEL, "--device", "gpu", code=2)
    invoke("unknown", code=2)
    invoke("inspect", "/nowhere/at/all", code=2)
    invoke("inspect", str(GOLDEN / "nano-s1"), "--memory", "lots", code=2)
    invoke("inspect", str(GOLDEN / "nano-s1"), "--memory", "9" * 400 + "GB", code=2)
    invoke("inspect", str(GOLDEN / "nano-s1"), "--memory", "9" * 5000 + "x1GB", code=2)
    invoke("inspect", "x" * 5000, code=2)
    invoke("env", "--device", "gpu", code=2)


def test_env_tells_backend_and_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPINFER_BATCH_INVARIANT", "1")
    monkeypatch.setenv("DEEPINFER_ENFORCE_EAGER", "enabled")
    monkeypatch.setenv("DEEPINFER_GC_INTERVALL_STEP", "5")
    report = json.loads(invoke("env", "--json"))
    assert report["backend"] == "cpu" and set(report["rejected"]) == {"reference", "cuda"}
    uses = {row["name"]: row["use"] for row in report["environment"]}
    assert uses["DEEPINFER_BATCH_INVARIANT"] == "field" and uses["DEEPINFER_GC_INTERVALL_STEP"] == "unknown"
    text = invoke("env")
    assert "not cuda" in text and "error: expected one of" in text and "did you mean" in text


def test_help_lists_every_command() -> None:
    text = invoke("--help")
    assert all(name in text for name in ("generate", "chat", "inspect", "env"))


def run_module(*arguments: str, stdout: str | None = None) -> subprocess.CompletedProcess:
    """``python -m deepinfer`` in a process of its own; `stdout`: a file that takes the output."""
    command = [sys.executable, "-m", "deepinfer", *arguments]
    with open(stdout or os.devnull, "wb") as file:
        target = file if stdout else subprocess.PIPE
        return subprocess.run(command, stdout=target, stderr=subprocess.PIPE, check=False, timeout=120)


def test_module_and_version() -> None:
    result = run_module("--version")
    assert (result.returncode, result.stdout.decode()) == (0, f"deepinfer {deepinfer.__version__}\n")
    assert invoke("--version") == result.stdout.decode()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("arguments", [["--version"], ["--help"]], ids=str)
def test_a_full_disk_is_one_line_and_an_exit_code(arguments: list[str]) -> None:
    result = run_module(*arguments, stdout="/dev/full")
    assert result.returncode == 3
    assert result.stderr.decode() == "error: standard output cannot be written (No space left on device)\n"


@pytest.mark.parametrize("options", [["--temperature", "-1"], ["--temperature", "1e400"], ["--max-tokens", "9" * 30]])
def test_wrong_sampling_options_cost_no_model(options: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def no_model(*_args: object, **_options: object) -> None:
        raise AssertionError("a model is being loaded")

    monkeypatch.setattr("deepinfer.llm.LLM.__init__", no_model)
    for command in (["generate", "a"], ["chat"]):
        result = CliRunner().invoke(app, [*command, *options], input="hi\n")
        assert result.exit_code == 2 and "must be" in result.output
