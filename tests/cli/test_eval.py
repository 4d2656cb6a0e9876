"""``deepinfer eval`` on rows with known answers."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deepinfer.bench.answer_rows import first_of_each_task, read_answer_rows
from deepinfer.cli.main import app

QUESTION = "<｜User｜>What is the capital of {}?<｜Assistant｜></think>"


def invoke(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["eval", *arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def write(path: Path, rows: list) -> str:
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), "utf-8")
    return str(path)


def test_a_table_by_task(tmp_path: Path) -> None:
    right = {
        "id": "a",
        "task": "known",
        "prompt": QUESTION.format("Norway"),
        "answer": "The capital of Norway is Oslo.",
    }
    rows = [
        right,
        {**right, "id": "b", "task": "unknown", "answer": "Lima"},
        {**right, "id": "c", "prompt": ""},  # BOS alone: any text
        {**right, "id": "d", "prompt": "<｜image｜>"},
    ]
    output = tmp_path / "answers.jsonl"
    source = write(tmp_path / "rows.jsonl", rows)
    lines = [line.split() for line in invoke(source, "-o", str(output), "--max-tokens", "16").splitlines()]
    assert ["known", "1", "3", "33.3%"] in lines and ["unknown", "0", "1", "0.0%"] in lines
    assert ["all", "1", "4", "25.0%"] in lines
    answers = [json.loads(line) for line in output.read_text("utf-8").splitlines()]
    assert [(answer["id"], answer["is_exact"]) for answer in answers] == [
        ("a", True), ("b", False), ("c", False), ("d", False)
    ]  # fmt: skip
    assert answers[1]["text"] == right["answer"] and "image_not_supported" in answers[3]["text"]
    report = json.loads(invoke(source, "--json", "--limit", "1"))
    assert report == {
        "known": {"exact": 1, "rows": 1},
        "unknown": {"exact": 0, "rows": 1},
        "all": {"exact": 1, "rows": 2},
    }
    cut = json.loads(invoke(source, "--json", "--limit", "1", "--max-tokens", "2"))
    assert cut["all"] == {"exact": 0, "rows": 2}


def test_bundled_rows() -> None:
    rows = read_answer_rows(None)
    assert len(rows) == 376 and len({row.id for row in rows}) == 376
    first = first_of_each_task(rows, 2)
    assert len(first) == 2 * len({row.task for row in rows}) and first_of_each_task(rows, None) == rows


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (['{"id": "a"'], "line 1: no JSON"),
        ([{"id": "a", "task": "b", "prompt": "c", "answer": 3}], "line 1: expected an object"),
        ([[]], "line 1: expected an object"),
        ([""], "holds no row"),
    ],
)
def test_wrong_files_cost_no_model(
    content: list, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deepinfer.llm.LLM.__init__", None)
    assert message in invoke(write(tmp_path / "rows.jsonl", content), code=2)


def test_wrong_sources(tmp_path: Path) -> None:
    rows, task = write(tmp_path / "rows.jsonl", []), write(tmp_path / "task.yaml", [])
    assert "not UTF-8" in invoke_bytes(tmp_path / "binary.jsonl")
    for sources in ((rows, task), (rows, rows)):
        assert "one .jsonl of rows" in invoke(*sources, code=2)
    assert "is no file" in invoke(str(tmp_path / "absent.jsonl"), code=2)
    assert "no directory" in invoke(rows, "-o", str(tmp_path / "absent" / "file"), code=2)


def invoke_bytes(path: Path) -> str:
    path.write_bytes(b"\xff\xfe")
    return invoke(str(path), code=2)
