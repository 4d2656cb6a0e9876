"""Planted faults are found, the first one is named, and correct ops are not accused."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from deepinfer import LLM, SamplingParams
from deepinfer.batch.batch_job import BatchJob
from deepinfer.check import checked_llm
from deepinfer.check.check_report import CheckReport
from deepinfer.check.check_rows import _params, check_rows
from deepinfer.check.checked_ops import CheckedOps
from deepinfer.check.job_rows import job_options, job_rows
from deepinfer.check.op_tolerance import NEAR_TIES, OP_TOLERANCES
from deepinfer.check.replay_row import ReplayRow, read_replay_rows
from deepinfer.cli.main import app
from deepinfer.core.route_result import RouteResult
from deepinfer.ops import reference
from deepinfer.ops.contract import Ops
from deepinfer.ops.selected_backend import SelectedBackend
from deepinfer.text.tokenizer import Tokenizer

MINI = Path(__file__).parents[2] / "deepinfer/data/mini"
TEXT = "<｜User｜>Here is a list of codes.\n" + "red fox: 1234\n" * 10 + "What is it?<｜Assistant｜></think>"
OPTIONS = {"max_model_len": 256, "max_num_seqs": 2, "backend": "cpu", "device": "cpu"}
Fault = Callable[[Callable[..., Any], tuple, dict], Any]


def check(rows: list[ReplayRow], **options: Any) -> CheckReport:
    return check_rows(lambda _: rows, OPTIONS | options, max_tokens=3)


def test_every_op_has_a_tolerance() -> None:
    contract = {name for name in vars(Ops) if not name.startswith("_")}
    assert set(OP_TOLERANCES) == contract
    assert all(item.reason for item in OP_TOLERANCES.values())


def test_a_correct_backend() -> None:
    rows = [ReplayRow(TEXT, None), ReplayRow("Once upon a time", (20, 300))]
    report = check(rows, yoco="compact")  # which calls every op
    assert report.is_fine and report.faults == () and report.backend == "cpu"
    assert report.must_be_equal and report.largest_difference == 0
    calls = {item.op: item.calls for item in report.ops}
    # At load; where other ranks have some of the experts; in steps from static tensors, about rows.
    elsewhere = {"rope_table", "sum_experts", "map_rows", "resolve_rows"}
    assert set(calls) == set(OP_TOLERANCES) - elsewhere and min(calls.values()) > 0
    seen = {item.op: item for item in report.ops}
    assert 0 < seen["linear"].worst < 1e-3 and seen["select_entries"].count > 100
    refused = check([ReplayRow("word " * 400, None), ReplayRow("a", (5,))])
    assert not refused.is_fine and len(refused.errors) == 1 and "max_model_len" in refused.errors[0]


def plant(monkeypatch: pytest.MonkeyPatch, op: str, fault: Fault) -> None:
    """Let an op of the judged backend do something else."""
    select = checked_llm.select_backend

    def select_wrong(*selection: Any) -> SelectedBackend:
        chosen = select(*selection)
        right = getattr(chosen.ops, op)
        wrong = SimpleNamespace(**vars(chosen.ops))
        setattr(wrong, op, lambda *args, **options: fault(right, args, options))
        return SelectedBackend(chosen.name, wrong, chosen.reason, chosen.rejected)

    monkeypatch.setattr(checked_llm, "select_backend", select_wrong)


def forgets_a_row(right: Callable[..., Any], args: tuple, options: dict) -> Any:
    units = args[5].clone()
    units[-1:] = -1
    return right(*args[:5], units, *args[6:], **options)


def chooses_the_first(right: Callable[..., Any], args: tuple, options: dict) -> Any:
    choice = right(*args, **options)
    picks = torch.arange(choice.picks.shape[1]).expand_as(choice.picks)
    return type(choice)(picks, choice.blocks, choice.margin, choice.block_margin)


def mixes_wrong(right: Callable[..., Any], args: tuple, options: dict) -> Any:
    *others, comb = right(*args, **options)
    return *others, comb.mT.contiguous()


FAULTS: dict[str, Fault] = {
    "hc_step": mixes_wrong,
    "hc_write": lambda right, args, options: right(*args, **options) * 1.01,
    "moe": lambda right, args, options: right(args[0], args[1].flip(1), *args[2:], **options),
    "ngram_rows": lambda right, args, options: right(*args, **options).roll(1, 0),
    "store_vectors": forgets_a_row,
    "select_entries": chooses_the_first,
}


@pytest.mark.parametrize("op", FAULTS)
def test_a_planted_fault_is_named(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, op, FAULTS[op])
    text = TEXT if op == "select_entries" else "Once upon a time"  # only a long text leaves a choice
    report = check([ReplayRow(text, (20, 300))], speculative="off")
    assert not report.is_fine
    assert [fault.op for fault in report.faults] == [op]  # others get what the wrong one made, and are right about it


def test_the_first_of_several_is_named_by_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "moe", FAULTS["moe"])
    plant(monkeypatch, "hc_step", FAULTS["hc_step"])
    result = CliRunner().invoke(app, ["check", "--share", "0.002", "--max-tokens", "2", "--backend", "cpu"])
    assert result.exit_code == 1, result.output
    lines = result.stdout.splitlines()
    assert lines[-2].startswith("first op outside its tolerance: hc_step (call ")  # before the first moe
    assert lines[-1].startswith("then: moe (call ") and "relative error" in lines[-1]
    assert any(line.split()[:1] == ["route"] for line in lines)


def test_whole_steps_are_compared_with_their_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "linear", lambda right, args, options: right(*args, **options) * (1 + 4e-6))
    report = check([ReplayRow("Once upon a time", (20, 300))])
    assert report.faults == () and report.largest_difference > 0 and not report.is_fine


def test_integers_may_differ_where_choices_nearly_tie() -> None:
    scores = {"top_k": 2, "scaling": 1.0, "normalize": True}

    def route(x: torch.Tensor, *_: Any, **__: Any) -> RouteResult:
        return x

    ops = SimpleNamespace(**dict.fromkeys(OP_TOLERANCES, route))
    checked = CheckedOps(ops)
    generator = torch.Generator().manual_seed(0)
    x, gate = torch.randn(500, 8, generator=generator), torch.randn(6, 8, generator=generator)
    right = reference.route(x, gate, torch.zeros(6), **scores)
    for num_wrong, is_fault in ((NEAR_TIES, False), (1, False), (1, True)):  # 0.1 % of 1000 integers, then of 2000
        ids = right.ids.clone()
        ids[:num_wrong, 0] = 99
        ops.result = RouteResult(ids, right.weights, right.margin)
        checked.ops.route = checked._checked("route", lambda *_, **__: ops.result)
        checked.ops.route(x, gate, torch.zeros(6), **scores)
        if num_wrong == 1 and not is_fault:
            assert checked.faults() == [] and checked.differing["route"] == (NEAR_TIES + 1, 2000)
    assert checked.shares()["route"] == (NEAR_TIES + 2) / 3000


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_path(MINI)


def test_rows_of_all_forms(tokenizer: Tokenizer, tmp_path: Path) -> None:
    with LLM(max_model_len=64) as llm:
        (output,) = llm.generate("The capital", SamplingParams(max_tokens=3), use_tqdm=False)
    ids = output.outputs[0].token_ids
    forms = [
        ("just a text", "just a text", None),
        ({"prompt_token_ids": [5, 6]}, [5, 6], None),
        ({"prompt": "p", "answer": "Oslo"}, "p", tuple(tokenizer.encode("Oslo"))),
        ({"prompt": "p", "token_ids": [7, 8]}, "p", (7, 8)),
        (output.to_dict(), list(output.prompt_token_ids), tuple(ids)),
        ({"prompt": "p", "completions": [{"text": "x", "token_ids": [3]}]}, "p", (3,)),
        ({"prompt": "p", "completions": [{"text": "x"}]}, "p", None),
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps(value) for value, _, _ in forms), "utf-8")
    assert read_replay_rows(path, tokenizer, 1.0) == [ReplayRow(prompt, done) for _, prompt, done in forms]
    assert read_replay_rows(path, tokenizer, 0.3) == [ReplayRow(forms[i][1], forms[i][2]) for i in (0, 3)]
    assert len(read_replay_rows(None, tokenizer, 0.05)) == 19


def test_rows_of_a_job(tmp_path: Path) -> None:
    """Chat and prompts with parameters of their own: what the job wrote is what is replayed."""
    rows = [
        {"custom_id": "a", "prompt": "Once upon a time", "sampling_params": {"temperature": 0.9, "max_tokens": 3}},
        {"custom_id": "b", "messages": [{"role": "user", "content": "Hi"}], "sampling_params": {"n": 2}},
        {"custom_id": "c", "prompt": ""},
        {"custom_id": "d", "prompt": "x", "sampling_params": {"top_p": 7}},
        {"custom_id": "e", "prompt": [5] * 9000},  # too long
    ]
    source, folder = tmp_path / "rows.jsonl", tmp_path / "job"
    source.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    command = ["batch", "run", str(source), "-o", str(folder), "--token-ids", "--backend", "cpu"]
    assert CliRunner().invoke(app, command).exit_code in (0, 1)
    results = [json.loads(line) for line in (folder / "results.jsonl").read_text("utf-8").splitlines()]
    job = BatchJob.open(folder)
    found = job_rows(job, 1.0)
    assert len(found) == 3 and len(job_rows(job, 0.25)) == 1
    report = check_rows(lambda _: found, job_options(job, 4), max_tokens=5)
    assert report.is_fine and report.num_rows == 3
    with LLM(**job_options(job, 4)) as llm:
        outputs = llm.generate([row.prompt for row in found], [_params(row, 5) for row in found], use_tqdm=False)
    recorded = [result["completions"][0]["token_ids"][:5] for result in results if result["error"] is None]
    assert [output.outputs[0].token_ids for output in outputs] == recorded
    result = CliRunner().invoke(app, ["check", str(folder), "--share", "0.25", "--max-tokens", "2"])
    assert result.exit_code == 0 and "1 rows, " in result.output
    result = CliRunner().invoke(app, ["check", str(folder), "--numerics", "fp32"])
    assert result.exit_code == 2 and "has its own" in result.output


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds no row"),
        ("{", "line 1: no JSON"),
        ("{}", 'line 1: expected {"prompt": text}'),
        ('{"prompt": "a", "token_ids": [true]}', "line 1: token ids must be"),
        ('{"messages": []}', "expected"),
    ],
)
def test_wrong_rows(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(content)
    result = CliRunner().invoke(app, ["check", str(path)])
    assert result.exit_code == 2 and message in result.output
    for share in ("0", "1.5", "nan"):
        result = CliRunner().invoke(app, ["check", str(path), "--share", share])
        assert result.exit_code == 2 and "over 0 and at most 1" in result.output
