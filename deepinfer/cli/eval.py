"""``deepinfer eval``: exact answers to rows of a file, or lm-evaluation-harness tasks from local files."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated, Any

import typer

from deepinfer.cli.report_table import ReportTable
from deepinfer.cli.reported_errors import reported_errors
from deepinfer.cli.require_paths import require_paths
from deepinfer.errors import ConfigError

_TASK_ENDINGS = (".yaml", ".yml")
_Report = dict[str, Any]


def evaluate(
    sources: Annotated[
        list[Path] | None,
        typer.Argument(help="A .jsonl of {id, task, prompt, answer}, or .yaml harness tasks; default: bundled rows."),
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="JSON lines: every row's answer.")] = None,
    model: Annotated[str | None, typer.Option(help="Checkpoint directory or hub id; default: the bundled one.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Rows of each task at most.")] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Longest answer to a row.")] = 96,
    chat_template: Annotated[bool, typer.Option("--chat", help="Harness documents become conversations.")] = False,
    numerics: Annotated[str, typer.Option(help="official, fp32-quant or fp32.")] = "official",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:<index>.")] = "auto",
    backend: Annotated[str, typer.Option(help="auto, reference, cpu or cuda.")] = "auto",
    progress: Annotated[bool, typer.Option(help="Progress bar on standard error.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Evaluate a model offline: a table of exact answers by task, or the harness's metrics."""
    options: dict[str, Any] = {"model": model, "numerics": numerics, "device": device, "backend": backend}
    paths = sources or []
    with reported_errors():
        is_harness = _is_harness(paths)
        for path in paths:
            require_paths(path, None)
        require_paths(None, output)
        if is_harness:
            report, samples, table = _harness(paths, options, limit, chat_template)
        else:
            report, samples, table = _answers(paths, options, limit, (max_tokens, progress))
        if output is not None:
            lines = (json_format.dumps(sample, ensure_ascii=False, default=str) for sample in samples)
            output.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    if json:
        typer.echo(json_format.dumps(report, default=str))
    else:
        table.show()


def _is_harness(paths: list[Path]) -> bool:
    """Whether the sources are harness tasks. ConfigError for a mixture."""
    kinds = {path.suffix.lower() in _TASK_ENDINGS for path in paths}
    if len(kinds) > 1 or (len(paths) > 1 and kinds == {False}):
        raise ConfigError(f"give one .jsonl of rows, or harness tasks (.yaml), not {', '.join(map(str, paths))}")
    return kinds == {True}


def _answers(
    paths: list[Path], options: dict[str, Any], limit: int | None, how: tuple[int, bool]
) -> tuple[_Report, list[_Report], ReportTable]:
    from deepinfer.bench.answer_rows import answer_rows, first_of_each_task, read_answer_rows, task_counts
    from deepinfer.llm import LLM

    rows = first_of_each_task(read_answer_rows(paths[0] if paths else None), limit)
    max_tokens, progress = how
    with LLM(**options) as llm:
        results = answer_rows(llm, rows, max_tokens, progress)
    counts = task_counts(results)
    counts["all"] = (sum(exact for exact, _ in counts.values()), len(rows))
    table = ReportTable("exact answers, greedy decoding", ("task", "exact", "rows", "share"))
    for task, (exact, total) in counts.items():
        table.add(task, str(exact), str(total), f"{exact / total:.1%}")
    report = {task: {"exact": exact, "rows": total} for task, (exact, total) in counts.items()}
    return report, [result.to_dict() for result in results], table


def _harness(
    paths: list[Path], options: dict[str, Any], limit: int | None, chat: bool
) -> tuple[_Report, list[_Report], ReportTable]:
    from deepinfer.integrations.harness_run import require_harness, run_harness
    from deepinfer.llm import LLM

    require_harness()  # before a model is loaded
    with LLM(**options) as llm:
        found = run_harness(llm, paths, limit, chat)
    table = ReportTable("lm-evaluation-harness", ("task", "metric", "value", "error"), num_left=2)
    for task, metrics in found["results"].items():
        for name, value in metrics.items():
            metric, _, form = name.partition(",")
            if form and not metric.endswith("_stderr"):
                error = metrics.get(f"{metric}_stderr,{form}")
                shown = f"{error:.4f}" if isinstance(error, float) else "-"
                table.add(task, metric if form == "none" else name, f"{value:.4f}", shown)
    samples = [{"task": task, **sample} for task, rows in found["samples"].items() for sample in rows]
    return found["results"], samples, table
