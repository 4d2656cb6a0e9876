"""``deepinfer bench scheduler``: what a decode step costs the scheduler."""

from __future__ import annotations

import json as json_format
from typing import Annotated

import typer

from deepinfer.cli.report_table import ReportTable
from deepinfer.cli.reported_errors import reported_errors


def scheduler(
    num_seqs: Annotated[list[int] | None, typer.Option(min=1, help="Running sequences; may be repeated.")] = None,
    num_drafts: Annotated[int, typer.Option(min=0, help="Drafts of each sequence and step.")] = 0,
    steps: Annotated[int, typer.Option(min=1, help="Timed steps.")] = 500,
    json: Annotated[bool, typer.Option("--json", help="Print JSON: an object, or a list for several.")] = False,
) -> None:
    """Time schedule plus update of steady decode steps through the Python binding; default: 256 and 2048 sequences."""
    with reported_errors():
        from deepinfer.bench.scheduler_bench import time_scheduler

        figures = [time_scheduler(number, num_drafts, steps) for number in num_seqs or (256, 2048)]
    if json:
        items = [item.to_dict() for item in figures]
        typer.echo(json_format.dumps(items[0] if len(items) == 1 else items, indent=1))
        return
    title = f"microseconds of a decode step, median (middle half), {steps} steps, {num_drafts} drafts"
    table = ReportTable(title, ("sequences", "step", "schedule", "update"), num_left=0)
    for item in figures:
        parts = (item.step, item.schedule, item.update)
        table.add(str(item.num_seqs), *(part.shown(1e6, 1) for part in parts))
    table.show()
