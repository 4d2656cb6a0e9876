"""``deepinfer check``: judges a backend by the reference, op by op, on rows that it ran."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepinfer.cli.exit_code import ExitCode
from deepinfer.cli.report_table import ReportTable
from deepinfer.cli.reported_errors import reported_errors
from deepinfer.cli.require_paths import require_paths
from deepinfer.errors import ConfigError

if TYPE_CHECKING:
    from deepinfer.check.check_report import CheckReport


def check(
    rows: Annotated[
        Path | None, typer.Argument(help="JSON lines, or a batch job's directory; default: bundled evaluation rows.")
    ] = None,
    share: Annotated[float, typer.Option(help="Of the rows, over 0 and at most 1.")] = 0.05,
    max_tokens: Annotated[int, typer.Option(min=1, help="Generated tokens of a row that are replayed.")] = 64,
    model: Annotated[str | None, typer.Option(help="Checkpoint directory or hub id; default: the bundled one.")] = None,
    numerics: Annotated[str, typer.Option(help="official, fp32-quant or fp32.")] = "official",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:<index>.")] = "auto",
    backend: Annotated[str, typer.Option(help="auto, reference, cpu or cuda.")] = "auto",
    max_model_len: Annotated[int | None, typer.Option(help="Prompt and output tokens at most.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Replay a share of rows, teacher-forced, with every op beside the reference on the same inputs.

    Exit code 1 when an op is outside its tolerance; the first one is named.
    """
    options: dict[str, Any] = {"model": model, "numerics": numerics, "device": device, "backend": backend}
    options |= {"max_model_len": max_model_len, "max_num_seqs": 8}
    with reported_errors():
        if not 0 < share <= 1:
            raise ConfigError(f"--share {share}: expected a number over 0 and at most 1")
        if rows is not None and rows.is_dir():
            report = _check_job(rows, share, options, max_tokens)
        else:
            require_paths(rows, None)
            from deepinfer.check.check_rows import check_rows
            from deepinfer.check.replay_row import read_replay_rows

            report = check_rows(lambda tokenizer: read_replay_rows(rows, tokenizer, share), options, max_tokens)
    if json:
        typer.echo(json_format.dumps(report.to_dict()))
    else:
        _show(report)
    if not report.is_fine:
        raise typer.Exit(ExitCode.SOME_FAILED)


def _check_job(directory: Path, share: float, options: dict[str, Any], max_tokens: int) -> CheckReport:
    """The job says which model and options; only the device may be another one."""
    from deepinfer.batch.batch_job import BatchJob
    from deepinfer.check.check_rows import check_rows
    from deepinfer.check.job_rows import job_options, job_rows

    usual = {"model": None, "numerics": "official", "backend": "auto", "max_model_len": None}
    changed = [name for name, value in usual.items() if options[name] != value]
    if changed:
        raise ConfigError(
            f"{changed[0]} = {options[changed[0]]!r}: the job in {str(directory)!r} has its own; leave it out"
        )
    job = BatchJob.open(directory)
    rows = job_rows(job, share)
    own = job_options(job, options["max_num_seqs"])
    return check_rows(lambda _: rows, own | {"device": options["device"]}, max_tokens)


def _show(report: CheckReport) -> None:
    from deepinfer.check.op_tolerance import OP_TOLERANCES

    title = f"{report.backend} beside the reference, numerics {report.numerics}"
    table = ReportTable(title, ("op", "calls", "worst error", "integers that differ", "allowed: bf16, float32, share"))
    for item in report.ops:
        allowed = OP_TOLERANCES[item.op]
        integers = f"{item.differing} of {item.count}" if item.count else "-"
        limits = f"{allowed.bf16:g}, {allowed.float32:g}, {allowed.share:g}"
        table.add(item.op, str(item.calls), f"{item.worst:.1e}", integers, limits)
    table.show()
    typer.echo(f"{report.num_rows} rows, {report.num_tokens} tokens, teacher-forced")
    demand = "has to be 0" if report.must_be_equal else "not judged: batch_invariant is off"
    typer.echo(f"whole steps against checked ops: log-probabilities differ by {report.largest_difference:g} ({demand})")
    for message in report.errors:
        typer.echo(f"row refused: {message}")
    if report.faults:
        typer.echo(f"first op outside its tolerance: {report.faults[0]}")
        for fault in report.faults[1:]:
            typer.echo(f"then: {fault}")
    else:
        typer.echo("every op is inside its tolerance")
