"""``deepinfer bench ops``: every op at the model's own shapes, beside what the machine can do."""

from __future__ import annotations

import json as json_format
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepinfer.cli.report_table import ReportTable
from deepinfer.cli.reported_errors import reported_errors
from deepinfer.config.numerics import Numerics
from deepinfer.errors import ConfigError, UnsupportedFeatureError

if TYPE_CHECKING:
    from deepinfer.bench.cuda_op_figures import CudaOpFigures
    from deepinfer.bench.machine_limits import MachineLimits
    from deepinfer.bench.op_figures import OpFigures

_CPU_ROWS = (1, 16)
_GPU_ROWS = (1, 8, 64, 512, 4096)
_ROWS_HELP = (
    "Rows of a step; may be repeated. Default: 1 and 16; on a GPU 1, 8, 64, 512, 4096 (over 512: one prompt's)."
)
_CPU_CONTEXT = 511
_GPU_CONTEXT = 32767


def ops(
    model: Annotated[
        str | None,
        typer.Option(help="Checkpoint directory or hub id (on a GPU a config file will do); default: the bundled one."),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:<index>.")] = "cpu",
    numerics: Annotated[Numerics, typer.Option(help="Rounding mode; on a GPU official.")] = Numerics.OFFICIAL,
    rows: Annotated[list[int] | None, typer.Option(min=1, help=_ROWS_HELP)] = None,
    context_len: Annotated[
        int | None, typer.Option(min=1, help="Tokens before the rows. Default: 511; on a GPU 32767.")
    ] = None,
    backend: Annotated[
        list[str] | None, typer.Option(help="On a CPU: reference or cpu; may be repeated. Default: both.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Samples of each op.")] = 15,
    num_threads: Annotated[int, typer.Option(min=1, help="Threads, on a CPU.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Time per call, share of the memory bandwidth and of the peak arithmetic."""
    with reported_errors():
        if device.split(":")[0] == "cuda":
            _refuse_cpu_options(numerics, backend)
            report, table = _on_gpu(model, device, rows or list(_GPU_ROWS), context_len or _GPU_CONTEXT, repeats)
        elif device == "cpu":
            from deepinfer.bench.op_bench import OpBench

            bench = OpBench(list(dict.fromkeys(backend or ("reference", "cpu"))), num_threads)
            figures = bench.run(model, numerics, tuple(rows or _CPU_ROWS), context_len or _CPU_CONTEXT, repeats)
            report, table = _report(bench.limits, figures), _table(bench.limits, figures)
        else:
            raise ConfigError(f"--device {device!r}: expected cpu, cuda or cuda:<index>")
    if json:
        typer.echo(json_format.dumps(report, indent=1))
    else:
        table.show()
    for line in report.get("failed", ()):
        typer.echo(line, err=True)
    if report.get("failed"):
        raise typer.Exit(1)


def _refuse_cpu_options(numerics: Numerics, backend: list[str] | None) -> None:
    if numerics is not Numerics.OFFICIAL:
        raise ConfigError(f"--numerics {numerics.value}: kernels are for 'official'; leave it out with --device cuda")
    if backend is not None and set(backend) != {"cuda"}:
        raise ConfigError(f"--backend {', '.join(backend)}: with --device cuda only the cuda backend is timed")


def _on_gpu(
    model: str | None, device: str, rows: list[int], context_len: int, repeats: int
) -> tuple[dict[str, Any], ReportTable]:
    from deepinfer.bench.cuda_op_bench import CudaOpBench
    from deepinfer.ops.cuda.availability import cuda_unavailable

    missing = cuda_unavailable(device)
    if missing is not None:
        raise UnsupportedFeatureError(f"--device {device}: {missing}; --device cpu times the ops of a CPU")
    bench = CudaOpBench(device, repeats)
    limits, gpu = bench.limits, bench.about()  # before an op can leave the GPU unusable
    figures = bench.run(model, list(dict.fromkeys(rows)), context_len)
    about = {**gpu, "model": model or "bundled", "context_len": context_len}
    report = {"about": about, **_report(limits, figures), "failed": bench.failures}
    return report, gpu_table(gpu["gpu"], limits, figures)


def _report(limits: MachineLimits, figures: Sequence[OpFigures | CudaOpFigures]) -> dict[str, Any]:
    return {"limits": limits.to_dict(), "ops": [item.to_dict(limits) for item in figures]}


def gpu_table(gpu: str, limits: MachineLimits, figures: list[CudaOpFigures]) -> ReportTable:
    """One row a use of an op and number of rows."""
    speeds = (
        f"{limits.bytes_per_second * 1e-12:.2f} TB/s copied, "
        f"{limits.multiply_adds_per_second * 2e-12:.0f} TFLOP/s in bf16"
    )
    title = f"{gpu}: microseconds of a call, median (middle half); shares of {speeds}"
    work_headings = ("rows", "calls", "KB", "us", "memory", "matrix", "floor", "floor/us", "torch us")
    headings = ("op", "use", "timed by", "torch's", *work_headings)
    table = ReportTable(title, headings, num_left=4)
    for item in figures:
        op, how = item.op, ("graph" if item.is_graph else "events") + (", cold" if item.is_cold else "")
        torch_us = op.seconds["torch"].shown(1e6, 1) if "torch" in op.seconds else "-"
        work = (str(op.rows), str(op.count), f"{op.num_bytes / 1e3:.1f}")
        floor = item.floor_seconds(limits)
        floors = (f"{floor * 1e6:.1f}", f"{floor / op.seconds['cuda'].median:.0%}")
        table.add(op.name, item.use, how, item.library or "-", *work, *_cells(op, "cuda", limits), *floors, torch_us)
    return table


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
