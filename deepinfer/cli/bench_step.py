"""``deepinfer bench step``: whole steps beside the sum of their ops' floors."""

from __future__ import annotations

import json as json_format
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepinfer.cli.report_table import ReportTable
from deepinfer.cli.reported_errors import reported_errors
from deepinfer.config.numerics import Numerics
from deepinfer.errors import ConfigError, UnsupportedFeatureError

if TYPE_CHECKING:
    from deepinfer.bench.machine_limits import MachineLimits
    from deepinfer.bench.op_figures import OpFigures
    from deepinfer.bench.step_bench import StepFigures

_DEFAULT_BATCHES = {"cpu": (1, 16), "cuda": (1, 16, 64, 256)}


def step(
    model: Annotated[str | None, typer.Option(help="Checkpoint directory or hub id; default: the bundled one.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:<index>.")] = "cpu",
    numerics: Annotated[Numerics, typer.Option(help="Rounding mode; on a GPU official.")] = Numerics.OFFICIAL,
    load_format: Annotated[str, typer.Option(help='"dummy": random weights, from a config and a tokenizer.')] = "auto",
    batch: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Sequences of a decode step; may be repeated. Default: 1, 16; on a GPU also 64, 256."),
    ] = None,
    context_len: Annotated[int, typer.Option(min=1, help="Tokens of each sequence before the first step.")] = 511,
    prefill: Annotated[int | None, typer.Option(min=1, help="Also a prefill of so many tokens, on a GPU.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="Decode steps of a run.")] = 32,
    repeats: Annotated[int, typer.Option(min=1, help="Runs, and samples of each op.")] = 5,
    num_threads: Annotated[int, typer.Option(min=1, help="Threads, on a CPU.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Time of a decode step (drafts off) and of a prefill over the sum of the floors of their ops.

    An op's floor: moving its bytes at the speed of a copy, or its products at the machine's peak, whichever is longer;
    on a GPU 3 microseconds more for its launch.
    """
    kind = device.split(":")[0]
    with reported_errors():
        batches = list(dict.fromkeys(batch or _DEFAULT_BATCHES.get(kind, ())))
        _require_options(device, numerics, batches, prefill)
        rows = batches if prefill is None else [*batches, prefill]
        if kind == "cuda":
            about, limits, ops = _ops_of_gpu(model, device, rows, context_len, repeats)
        else:
            about, limits, ops = _ops_of_cpu(model, numerics, rows, context_len, repeats, num_threads)
        about |= {"model": model or "bundled", "context_len": context_len}
        options: dict[str, Any] = {
            "model": model,
            "device": device,
            "numerics": numerics.value,
            "load_format": load_format,
        }
        options |= {"num_threads": num_threads, "speculative": "off", "max_num_seqs": max(batches)}
        options["max_model_len"] = max(context_len + 1 + steps, (prefill or 0) + 2)
        figures = _measure(options, (limits, ops), (context_len, steps, prefill), repeats)
    _show(about, limits, figures, json)


def _show(about: dict[str, Any], limits: MachineLimits, figures: list[StepFigures], json: bool) -> None:
    if json:
        steps_found = [item.to_dict() for item in figures]
        typer.echo(json_format.dumps({"about": about, "limits": limits.to_dict(), "steps": steps_found}, indent=1))
        return
    table = ReportTable(
        "milliseconds, median (middle half)", ("step", "rows", "measured", "ops", "floor", "over floor", "tokens/s")
    )
    for item in figures:
        sums = (f"{item.ops_seconds * 1e3:.3f}", f"{item.floor_seconds * 1e3:.3f}", f"{item.over_floor:.2f}")
        table.add(item.kind, str(item.rows), item.step.shown(1e3, 3), *sums, f"{item.rows / item.step.median:.0f}")
    table.show()


def _require_options(device: str, numerics: Numerics, batches: list[int], prefill: int | None) -> None:
    from deepinfer.bench.attention_cases import MOST_SEQUENCES

    kind = device.split(":")[0]
    if kind not in _DEFAULT_BATCHES:
        raise ConfigError(f"--device {device!r}: expected cpu, cuda or cuda:<index>")
    if kind == "cuda" and numerics is not Numerics.OFFICIAL:
        raise ConfigError(f"--numerics {numerics.value}: kernels are for 'official'; leave it out on a GPU")
    if max(batches) > MOST_SEQUENCES:
        raise ConfigError(f"--batch {max(batches)}: expected at most {MOST_SEQUENCES}")
    if prefill is not None and kind == "cpu":
        raise ConfigError("--prefill: a CPU's ops are recorded from decode steps; leave it out, or use a GPU")
    if prefill is not None and prefill <= MOST_SEQUENCES:
        raise ConfigError(f"--prefill {prefill}: expected more than {MOST_SEQUENCES} tokens")


_Timed = tuple[dict[str, Any], "MachineLimits", dict[int, list["OpFigures"]]]


def _ops_of_gpu(model: str | None, device: str, rows: list[int], context_len: int, repeats: int) -> _Timed:
    from deepinfer.bench.cuda_op_bench import CudaOpBench
    from deepinfer.ops.cuda.availability import cuda_unavailable

    missing = cuda_unavailable(device)
    if missing is not None:
        raise UnsupportedFeatureError(f"--device {device}: {missing}; --device cpu times the steps of a CPU")
    bench = CudaOpBench(device, repeats)
    limits = bench.limits
    figures = [item.op for item in bench.run(model, rows, context_len) if "draft" not in item.use]
    if bench.failures:
        raise UnsupportedFeatureError(f"ops that cannot run here: {'; '.join(bench.failures)}")
    bench.release()
    return dict(bench.about()), limits, _by_rows(figures)


def _ops_of_cpu(
    model: str | None, numerics: Numerics, rows: list[int], context_len: int, repeats: int, num_threads: int
) -> _Timed:
    from deepinfer.bench.op_bench import OpBench

    bench = OpBench(["cpu"], num_threads)
    figures = bench.run(model, numerics, rows, context_len, repeats)
    return {"num_threads": num_threads}, bench.limits, _by_rows(figures)


def _by_rows(figures: list[OpFigures]) -> dict[int, list[OpFigures]]:
    found: dict[int, list[OpFigures]] = {}
    for item in figures:
        found.setdefault(item.rows, []).append(item)
    return found


def _measure(
    options: dict[str, Any],
    machine: tuple[MachineLimits, dict[int, list[OpFigures]]],
    sizes: tuple[int, int, int | None],
    repeats: int,
) -> list[StepFigures]:
    from deepinfer.bench.step_bench import GPU_LAUNCH_SECONDS, StepBench
    from deepinfer.llm import LLM

    (limits, ops), (context_len, num_steps, prefill) = machine, sizes
    on_gpu = options["device"] != "cpu"
    with LLM(**options) as llm:
        bench = StepBench(llm, limits, GPU_LAUNCH_SECONDS if on_gpu else 0.0, "cuda" if on_gpu else "cpu", repeats)
        figures = bench.decode({rows: found for rows, found in ops.items() if rows != prefill}, context_len, num_steps)
        return figures if prefill is None else [*figures, bench.prefill(ops[prefill])]
