"""What the commands of ``deepinfer batch`` print."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from deepinfer.cli.report_table import ReportTable

if TYPE_CHECKING:
    from deepinfer.batch.job_plan import JobPlan
    from deepinfer.batch.job_status import JobStatus
    from deepinfer.batch.job_verdict import JobVerdict
    from deepinfer.batch.row_story import RowStory


def show_status(directory: Path, found: JobStatus, *, as_json: bool) -> None:
    """How far a job is."""
    if as_json:
        typer.echo(json.dumps(found.to_dict()))
        return
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


def show_plan(directory: Path, found: JobPlan, *, as_json: bool) -> None:
    """What a job will be."""
    if as_json:
        typer.echo(json.dumps(found.to_dict()))
        return
    table = ReportTable(f"{directory}: {found.num_rows:,} rows", ("what", "number"))
    table.add("rows that will fail", f"{sum(found.failures.values()):,}")
    for code, number in found.failures.items():
        table.add(f"  {code}", f"{number:,}")
    table.add("prompt tokens", f"{found.num_prompt_tokens:,}")
    for share, length in found.prompt_lengths.items():
        table.add(f"  {share:.0%} of the prompts have at most", f"{length:,}")
    table.add("  the longest has", f"{found.longest_prompt:,}")
    table.add("new tokens, at most", f"{found.num_allowed_tokens:,}")
    table.show()
    if found.seconds is None:
        typer.echo("time: unknown, as no job of this model has run on this machine; the first one's speed is kept")
    else:
        typer.echo(f"time: about {found.seconds:,.0f} s with one worker, by the speed of the last job here")
    typer.echo(f"to run it: deepinfer batch resume {directory}")


def show_verdict(verdict: JobVerdict, *, as_json: bool) -> None:
    """Whether a job's rows are what they were."""
    if as_json:
        typer.echo(json.dumps(verdict.to_dict()))
        return
    typer.echo(f"{verdict.num_checked:,} rows ran again, {len(verdict.differing):,} of them gave another result")
    for row in verdict.differing:
        typer.echo(f"row {row} differs")
    if verdict.results_are_whole is False:
        typer.echo("results.jsonl is not what was merged: remove it, and deepinfer batch resume merges it again")


def show_story(story: RowStory, *, as_json: bool) -> None:
    """One row's life."""
    if as_json:
        typer.echo(json.dumps(story.to_dict()))
        return
    table = ReportTable(f"row {story.row} ({story.custom_id}): {story.state}", ("what", ""), num_left=2)
    table.add("range", str(story.range))
    table.add("key", story.key)
    if story.prompt is not None:
        table.add("prompt", f"{story.num_prompt_tokens:,} tokens: {story.prompt!r:.200}")
    for name, value in story.params.items():
        table.add(f"  {name}", str(value))
    if story.error is not None:
        table.add("error", f"{story.error['code']}: {story.error['message']}")
    for run in story.runs:
        ended = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run["ended"]))
        table.add("ran", f"ended {ended} at {run['worker']}")
        for name, seconds in run.get("seconds", {}).items():
            table.add(f"  {name}", f"{seconds:.3f} s behind its arrival")
        if "generated_tokens" in run:
            table.add("  new tokens", f"{run['generated_tokens']:,}")
            table.add("  drafts", f"{run['accepted_drafts']:,} accepted of {run['drafts']:,}")
            table.add("  preemptions", f"{run['preemptions']:,}")
    table.add("results recorded", str(story.num_attempts))
    table.show()
    if story.result is not None:
        typer.echo(json.dumps(story.result, ensure_ascii=False, indent=1))
