"""``deepinfer batch``: durable jobs over files of prompts."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from deepinfer.cli import batch_options as options
from deepinfer.cli.exit_code import ExitCode
from deepinfer.cli.overlap_option import OverlapOption
from deepinfer.cli.report_table import ReportTable
from deepinfer.cli.reported_errors import reported_errors

if TYPE_CHECKING:
    from deepinfer.batch.batch_job import BatchJob
    from deepinfer.batch.job_run import JobOutcome
    from deepinfer.batch.job_status import JobStatus

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Durable jobs: a file of prompts in, results out.")


@app.command()
def run(
    input: options.Input,
    output: options.Output,
    format: options.Format = "auto",
    id_column: options.IdColumn = "custom_id",
    prompt_column: options.PromptColumn = "prompt",
    messages_column: options.MessagesColumn = "messages",
    params_column: options.ParamsColumn = "sampling_params",
    chat_column: options.ChatColumn = "chat_options",
    param_columns: options.ParamColumns = None,
    keep_prompts: options.KeepPrompts = False,
    token_ids: options.TokenIds = False,
    max_tokens: options.MaxTokens = None,
    temperature: options.Temperature = None,
    top_p: options.TopP = None,
    stop: options.Stop = None,
    param: options.Params = None,
    seed: options.Seed = 0,
    thinking: options.Thinking = None,
    effort: options.Effort = None,
    model: options.Model = None,
    revision: options.Revision = None,
    numerics: options.Numerics = "official",
    backend: options.Backend = "auto",
    device: options.Device = None,
    max_model_len: options.MaxModelLen = None,
    max_num_seqs: options.MaxNumSeqs = None,
    num_threads: options.NumThreads = None,
    engine: options.EngineOptions = None,
    range_rows: options.RangeRows = None,
    max_row_bytes: options.MaxRowBytes = 2**24,
    budget_tokens: options.BudgetTokens = None,
    budget_minutes: options.BudgetMinutes = None,
    max_failures: options.MaxFailures = None,
    grace: options.Grace = 10.0,
) -> None:
    """Begin a job and work on it; the same command again goes on with it."""
    given = {name: value for name, value in locals().items() if value is not None}
    with reported_errors():
        _work(begin_job(given), {}, given)


@app.command()
def resume(
    directory: options.Directory,
    retry_failed: options.RetryFailed = False,
    device: options.Device = None,
    max_num_seqs: options.MaxNumSeqs = None,
    num_threads: options.NumThreads = None,
    overlap: OverlapOption = None,
    engine: options.EngineOptions = None,
    budget_tokens: options.BudgetTokens = None,
    budget_minutes: options.BudgetMinutes = None,
    max_failures: options.MaxFailures = None,
    grace: options.Grace = 10.0,
) -> None:
    """Go on with a job; no option is needed. Several at once are several workers."""
    given = {name: value for name, value in locals().items() if value is not None}
    with reported_errors():
        from deepinfer.batch.batch_job import BatchJob
        from deepinfer.batch.retry import retry_failed_rows

        job = BatchJob.open(directory)
        if retry_failed:
            typer.echo(f"{retry_failed_rows(job.directory, job.manifest):,} failed rows are done again", err=True)
        _work(job, options.engine_changes(given), given)


@app.command()
def status(directory: options.Directory, json: options.Json = False) -> None:
    """How far a job is."""
    with reported_errors():
        from deepinfer.batch.job_directory import JobDirectory
        from deepinfer.batch.job_manifest import JobManifest
        from deepinfer.batch.job_status import JobStatus

        names = JobDirectory(directory)
        found = JobStatus.read(names, JobManifest.read(names.manifest))
    if json:
        typer.echo(json_format.dumps(found.to_dict()))
    else:
        _show_status(directory, found)


def begin_job(given: dict[str, Any]) -> BatchJob:
    """The job of a command's options."""
    from deepinfer.batch.batch_job import BatchJob

    return BatchJob.begin(options.job_request(given), given["output"])


def _work(job: BatchJob, changes: dict[str, Any], given: dict[str, Any]) -> None:
    """Load the model and work on a job; ends the command with its exit code."""
    from deepinfer.batch.job_budget import JobBudget
    from deepinfer.batch.job_run import JobRun
    from deepinfer.batch.merge import MergedResults
    from deepinfer.batch.stop_signal import StopSignal

    names = {"tokens": "budget_tokens", "minutes": "budget_minutes", "failures": "max_failures"}
    budget = JobBudget(**{name: given[option] for name, option in names.items() if option in given})
    results = MergedResults.read(job.directory)
    if results is not None:
        typer.echo("the job is complete already", err=True)
        raise typer.Exit(ExitCode.SOME_FAILED if results.failures else ExitCode.OK)
    from deepinfer.llm import LLM

    with StopSignal() as stop, LLM(**job.engine_options(changes)) as llm:
        outcome = JobRun(job, llm, budget=budget, stop=stop, grace_seconds=given["grace"]).run()
    _end(job.directory.root, outcome)


def _end(root: Path, outcome: JobOutcome) -> None:
    """Say how it ended, and leave with the exit code."""
    results = outcome.results
    if results is None:
        typer.echo(f"{outcome.reason}; to go on: deepinfer batch resume {root}", err=True)
        raise typer.Exit(ExitCode.UNFINISHED)
    failed = sum(results.failures.values())
    typer.echo(f"{results.rows:,} rows, {failed:,} of them failed: {root / 'results.jsonl'}", err=True)
    if failed:
        raise typer.Exit(ExitCode.SOME_FAILED)


def _show_status(directory: Path, found: JobStatus) -> None:
    state = "complete" if found.results is not None else "being worked on" if found.held else "not complete"
    table = ReportTable(f"{directory}: {state}", ("what", "rows"))
    table.add("input", f"{found.num_rows:,}")
    table.add("with a result", f"{found.num_ended:,}")
    for code, number in found.failures.items():
        table.add(f"failed: {code}", f"{number:,}")
    table.add("ranges done", f"{found.num_done_ranges:,} of {found.num_ranges:,}")
    table.show()
    for number, holder in found.held.items():
        typer.echo(f"range {number}: {holder.get('worker', 'somebody')}")
    if found.results is None and not found.held:
        typer.echo(f"to go on: deepinfer batch resume {directory}")
