"""``deepinfer batch``: durable jobs over files of prompts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from deepinfer.cli import batch_groups as groups
from deepinfer.cli import batch_options as options
from deepinfer.cli.batch_tables import show_plan, show_status, show_story, show_verdict
from deepinfer.cli.exit_code import ExitCode
from deepinfer.cli.option_groups import takes
from deepinfer.cli.reported_errors import reported_errors

if TYPE_CHECKING:
    from deepinfer.batch.batch_job import BatchJob
    from deepinfer.batch.job_outcome import JobOutcome

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Durable jobs: a file of prompts in, results out.")


@app.command()
@takes(groups.job, groups.work)
def run(given: dict[str, Any]) -> None:
    """Begin a job and work on it; the same command again goes on with it."""
    with reported_errors():
        _work(begin_job(given), {}, given)


@app.command()
@takes(groups.begun_job, groups.work)
def resume(given: dict[str, Any]) -> None:
    """Go on with a job; no option is needed. Several at once are several workers."""
    with reported_errors():
        from deepinfer.batch.batch_job import BatchJob
        from deepinfer.batch.retry import retry_failed_rows

        job = BatchJob.open(given["directory"])
        if given["retry_failed"]:
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
    show_status(directory, found, as_json=json)


@app.command()
@takes(groups.job, groups.report)
def plan(given: dict[str, Any]) -> None:
    """Begin a job and say what it will be, without loading weights; `deepinfer batch resume OUT_DIR` runs it."""
    with reported_errors():
        from deepinfer.batch.job_plan import JobPlan
        from deepinfer.batch.speed_book import SpeedBook

        job = begin_job(given)
        found = JobPlan.make(job, SpeedBook().find(job.manifest))
    show_plan(given["output"], found, as_json=given["json"])


@app.command()
def verify(
    directory: options.Directory,
    sample: options.Sample = 20,
    seed: options.SampleSeed = 0,
    device: options.Device = None,
    json: options.Json = False,
) -> None:
    """Run some rows again and compare them with what was recorded, bit for bit."""
    with reported_errors():
        from deepinfer.batch.batch_job import BatchJob
        from deepinfer.batch.verify import verify_job
        from deepinfer.llm import LLM

        job = BatchJob.open(directory)
        with LLM(**job.engine_options({} if device is None else {"device": device})) as llm:
            verdict = verify_job(job, llm, sample, seed)
    show_verdict(verdict, as_json=json)
    if not verdict.is_good:
        raise typer.Exit(ExitCode.SOME_FAILED)


@app.command()
def explain(directory: options.Directory, row: options.Row, json: options.Json = False) -> None:
    """One row's life: where it stands, what became of it, when and where it ran."""
    with reported_errors():
        from deepinfer.batch.batch_job import BatchJob
        from deepinfer.batch.row_story import RowStory

        story = RowStory.read(BatchJob.open(directory), row)
    show_story(story, as_json=json)


def begin_job(given: dict[str, Any]) -> BatchJob:
    """The job of a command's options."""
    from deepinfer.batch.batch_job import BatchJob

    return BatchJob.begin(options.job_request(given), given["output"])


def _work(job: BatchJob, changes: dict[str, Any], given: dict[str, Any]) -> None:
    """Load the model and work on a job; ends the command with its exit code."""
    from deepinfer.batch.job_budget import JobBudget
    from deepinfer.batch.job_progress import JobProgress
    from deepinfer.batch.job_run import JobRun
    from deepinfer.batch.merged_results import MergedResults
    from deepinfer.batch.speed_book import SpeedBook
    from deepinfer.batch.stop_signal import StopSignal

    names = {"tokens": "budget_tokens", "minutes": "budget_minutes", "failures": "max_failures"}
    budget = JobBudget(**{name: given[option] for name, option in names.items() if option in given})
    results = MergedResults.read(job.directory)
    if results is not None:
        typer.echo("the job is complete already", err=True)
        raise typer.Exit(ExitCode.SOME_FAILED if results.failures else ExitCode.OK)
    from deepinfer.llm import LLM

    watch = JobProgress(sys.stderr if given["progress"] else None, job.directory, job.manifest)
    with StopSignal() as stop, LLM(**job.engine_options(changes)) as llm, watch:
        run = JobRun(
            job,
            llm,
            budget=budget,
            stop=stop,
            grace_seconds=given["grace"],
            on_step=watch.update,
            speeds=SpeedBook(),
        )
        outcome = run.run()
        watch.show(run.totals)
    _end(job, outcome)


def _end(job: BatchJob, outcome: JobOutcome) -> None:
    """Say how it ended, and leave with the exit code."""
    from deepinfer.batch.job_report import JobReport

    root, results = job.directory.root, outcome.results
    if results is None:
        typer.echo(f"{outcome.reason}; to go on: deepinfer batch resume {root}", err=True)
        raise typer.Exit(ExitCode.UNFINISHED)
    failed = sum(results.failures.values())
    typer.echo(JobReport.read(job.directory, job.manifest).to_text(), err=True, nl=False)
    typer.echo(f"{results.rows:,} rows, {failed:,} of them failed: {root / 'results.jsonl'}", err=True)
    if failed:
        raise typer.Exit(ExitCode.SOME_FAILED)
