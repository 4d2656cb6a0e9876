"""``deepinfer bench ops``: every op at the model's own shapes, beside what the machine can do."""

from __future__ import annotations

import json as json_format
from typing import TYPE_CHECKING, Annotated

import typer

from deepinfer.cli.report_table import ReportTable
from deepinfer.cli.reported_errors import reported_errors
from deepinfer.config.numerics import Numerics

if TYPE_CHECKING:
    from deepinfer.bench.machine_limits import MachineLimits
    from deepinfer.bench.op_figures import OpFigures


def ops(
    model: Annotated[str | None, typer.Option(help="Checkpoint directory or hub id; default: the bundled one.")] = None,
    numerics: Annotated[Numerics, typer.Option(help="Rounding mode.")] = Numerics.OFFICIAL,
    rows: Annotated[list[int] | None, typer.Option(min=1, help="Rows of a decode step; may be repeated.")] = None,
    context_len: Annotated[int, typer.Option(min=1, help="Tokens before each row.")] = 511,
    backend: Annotated[list[str] | None, typer.Option(help="reference or cpu; may be repeated. Default: both.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Samples of each op.")] = 15,
    num_threads: Annotated[int, typer.Option(min=1, help="Threads.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Time per call, share of the memory bandwidth and of the peak arithmetic; default: 1 and 16 rows."""
    with reported_errors():
        names = list(dict.fromkeys(backend or ("reference", "cpu")))
        from deepinfer.bench.op_bench import OpBench

        bench = OpBench(names, num_threads)
        figures = bench.run(model, numerics, tuple(rows or (1, 16)), context_len, repeats)
    if json:
        items = [item.to_dict(bench.limits) for item in figures]
        typer.echo(json_format.dumps({"limits": bench.limits.to_dict(), "ops": items}, indent=1))
    else:
        _table(bench.limits, figures).show()


def _table(limits: MachineLimits, figures: list[OpFigures]) -> ReportTable:
    speeds = (
        f"{limits.bytes_per_second * 1e-9:.1f} GB/s, {limits.multiply_adds_per_second * 1e-9:.1f} G multiply-adds/s"
    )
    title = f"microseconds of a call, median (middle half); shares of this machine's {speeds}"
    names = list(dict.fromkeys(name for item in figures for name in item.seconds))
    columns = [column for name in names for column in (f"{name} us", "memory", "arithmetic")]
    table = ReportTable(title, ("op", "shapes", "rows", "calls", "KB", *columns), num_left=2)
    for item in figures:
        cells = [item.name, item.shapes, str(item.rows), str(item.count), f"{item.num_bytes / 1e3:.1f}"]
        for name in names:
            cells += _cells(item, name, limits) if name in item.seconds else ("-", "-", "-")
        table.add(*cells)
    return table


def _cells(item: OpFigures, name: str, limits: MachineLimits) -> tuple[str, str, str]:
    arithmetic = item.arithmetic_share(name, limits)
    return (
        item.seconds[name].shown(1e6, 1),
        f"{item.bandwidth_share(name, limits):.0%}",
        "-" if arithmetic is None else f"{arithmetic:.0%}",
    )
