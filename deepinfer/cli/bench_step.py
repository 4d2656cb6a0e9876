"""``deepinfer bench step``: whole steps beside the sum of their ops' floors."""

from __future__ import annotations

import json as json_format
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepinfer.bench.draft_mode import DraftMode
from deepinfer.cli.report_table import ReportTable
from deepinfer.cli.reported_errors import reported_errors
from deepinfer.config.numerics import Numerics
from deepinfer.errors import ConfigError, UnsupportedFeatureError

if TYPE_CHECKING:
    from deepinfer.bench.machine_limits import MachineLimits
    from deepinfer.bench.step_bench import StepFigures
    from deepinfer.bench.step_op import StepOp

_DEFAULT_BATCHES = {"cpu": (1, 16), "cuda": (1, 16, 64, 256)}


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Steps to measure: decode steps of these batches with each of these (drafts, number of drafts), prefills."""

    batches: list[int]
    drafts: list[tuple[DraftMode, int]]
    prefill: int | None
    context_len: int
    num_steps: int
    repeats: int


def step(
    model: Annotated[str | None, typer.Option(help="Checkpoint directory or hub id; default: the bundled one.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:<index>.")] = "cpu",
    numerics: Annotated[Numerics, typer.Option(help="Rounding mode; on a GPU official.")] = Numerics.OFFICIAL,
    load_format: Annotated[str, typer.Option(help='"dummy": random weights, from a config and a tokenizer.')] = "auto",
    batch: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Sequences of a decode step; may be repeated. Default: 1, 16; on a GPU also 64, 256."),
    ] = None,
    drafts: Annotated[
        list[DraftMode] | None,
        typer.Option(help="Decode steps with drafts, on a GPU; may be repeated. Default: off."),
    ] = None,
    num_drafts: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Drafts verified per sequence with --drafts fixed; may be repeated. Default: 5."),
    ] = None,
    context_len: Annotated[int, typer.Option(min=1, help="Tokens of each sequence before the first step.")] = 511,
    prefill: Annotated[int | None, typer.Option(min=1, help="Also a prefill of so many tokens, on a GPU.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="Decode steps of a run.")] = 32,
    repeats: Annotated[int, typer.Option(min=1, help="Runs, and samples of each op.")] = 5,
    num_threads: Annotated[int, typer.Option(min=1, help="Threads, on a CPU.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Time of a decode step and of a prefill over the sum of the floors of their ops; kernels of a step's CUDA graphs.

    An op's floor: moving its bytes at the speed of a copy, or its products at the machine's peak, whichever is longer;
    on a GPU 3 microseconds more for its launch.
    """
    with reported_errors():
        batches = list(dict.fromkeys(batch or _DEFAULT_BATCHES.get(device.split(":")[0], ())))
        modes = _modes(drafts or [DraftMode.OFF], num_drafts or [5])
        wanted = _Wanted(batches, modes, prefill, context_len, steps, repeats)
        _require_options(device, numerics, wanted)
        options = {"model": model, "device": device, "numerics": numerics.value, "load_format": load_format}
        about, limits, figures = _run(options | {"num_threads": num_threads}, wanted)
    _show(about, limits, figures, json)


def _run(options: dict[str, Any], wanted: _Wanted) -> tuple[dict[str, Any], MachineLimits, list[StepFigures]]:
    """Times the ops, then the steps of an engine for each way to verify drafts; `options` are the engine's."""
    on_gpu = options["device"] != "cpu"
    about, limits, ops = _ops_of_gpu(options, wanted) if on_gpu else _ops_of_cpu(options, wanted)
    about |= {"model": options["model"] or "bundled", "context_len": wanted.context_len}
    longest = max(wanted.context_len + 2 + 2 * wanted.num_steps, (wanted.prefill or 0) + 2)
    options |= {"max_num_seqs": max(wanted.batches), "max_model_len": longest}
    return about, limits, [item for mode in wanted.drafts for item in _measure(options, mode, ops, wanted)]


def _modes(drafts: list[DraftMode], numbers: list[int]) -> list[tuple[DraftMode, int]]:
    """(drafts, verified per sequence and step): several for fixed drafts."""
    found = [(mode, number) for mode in drafts for number in (numbers if mode is DraftMode.FIXED else [0])]
    return list(dict.fromkeys(found))


def _show(about: dict[str, Any], limits: MachineLimits, figures: list[StepFigures], json: bool) -> None:
    if json:
        steps_found = [item.to_dict() for item in figures]
        typer.echo(json_format.dumps({"about": about, "limits": limits.to_dict(), "steps": steps_found}, indent=1))
        return
    headings = ("step", "sequences", "rows", "measured", "ops", "floor", "over floor", "tokens/s", "kernels", "a layer")
    table = ReportTable("milliseconds, median (middle half); kernels of the forward pass", headings)
    for item in figures:
        name = item.kind if item.drafts is DraftMode.OFF else f"{item.kind}, {item.num_drafts or 'scheduled'} drafts"
        sums, kernels = ("-", "-", "-"), ("-", "-")
        if item.ops:
            sums = (f"{item.ops_seconds * 1e3:.3f}", f"{item.floor_seconds * 1e3:.3f}", f"{item.over_floor:.2f}")
        if item.kernels is not None:
            kernels = (str(item.kernels.forward), f"{item.kernels.per_layer:.1f}")
        sizes, speed = (str(item.num_seqs), str(item.rows)), f"{item.tokens_per_second:.0f}"
        table.add(name, *sizes, item.step.shown(1e3, 3), *sums, speed, *kernels)
    table.show()


def _require_options(device: str, numerics: Numerics, wanted: _Wanted) -> None:
    from deepinfer.bench.attention_cases import MOST_SEQUENCES

    kind, prefill = device.split(":")[0], wanted.prefill
    if kind not in _DEFAULT_BATCHES:
        raise ConfigError(f"--device {device!r}: expected cpu, cuda or cuda:<index>")
    if kind == "cuda" and numerics is not Numerics.OFFICIAL:
        raise ConfigError(f"--numerics {numerics.value}: kernels are for 'official'; leave it out on a GPU")
    if max(wanted.batches) > MOST_SEQUENCES:
        raise ConfigError(f"--batch {max(wanted.batches)}: expected at most {MOST_SEQUENCES}")
    if prefill is not None and kind == "cpu":
        raise ConfigError("--prefill: a CPU's ops are recorded from decode steps; leave it out, or use a GPU")
    if kind == "cpu" and any(mode is not DraftMode.OFF for mode, _ in wanted.drafts):
        raise ConfigError("--drafts: a CPU's ops are recorded from steps without drafts; leave it out, or use a GPU")
    if prefill is not None and prefill <= MOST_SEQUENCES:
        raise ConfigError(f"--prefill {prefill}: expected more than {MOST_SEQUENCES} tokens")


_Ops = dict[tuple[int, int] | int, list["StepOp"]]  # by sequences and drafts of each; of a prefill by its tokens


def _ops_of_gpu(options: dict[str, Any], wanted: _Wanted) -> tuple[dict[str, Any], MachineLimits, _Ops]:
    from deepinfer.bench.cuda_op_bench import CudaOpBench
    from deepinfer.bench.cuda_step_ops import CudaStepOps
    from deepinfer.ops.cuda.availability import cuda_unavailable

    device = options["device"]
    missing = cuda_unavailable(device)
    if missing is not None:
        raise UnsupportedFeatureError(f"--device {device}: {missing}; --device cpu times the steps of a CPU")
    bench = CudaOpBench(device, wanted.repeats)
    limits = bench.limits
    numbers = [number for mode, number in wanted.drafts if mode is not DraftMode.SCHEDULED]
    decodes = [(batch, number) for number in numbers for batch in wanted.batches]
    prefills = [] if wanted.prefill is None else [wanted.prefill]
    ops = CudaStepOps(bench, options["model"], wanted.context_len).run(decodes, prefills)
    if bench.failures:
        raise UnsupportedFeatureError(f"ops that cannot run here: {'; '.join(bench.failures)}")
    bench.release()
    return dict(bench.about()), limits, ops


def _ops_of_cpu(options: dict[str, Any], wanted: _Wanted) -> tuple[dict[str, Any], MachineLimits, _Ops]:
    from deepinfer.bench.op_bench import OpBench
    from deepinfer.bench.step_op import StepOp

    bench, ops = OpBench(["cpu"], options["num_threads"]), _Ops()
    numerics, context = Numerics(options["numerics"]), wanted.context_len
    for item in bench.run(options["model"], numerics, wanted.batches, context, wanted.repeats):
        ops.setdefault((item.rows, 0), []).append(StepOp.of(item, "", "cpu", bench.limits, 0.0))
    return {"num_threads": options["num_threads"]}, bench.limits, ops


def _measure(options: dict[str, Any], mode: tuple[DraftMode, int], ops: _Ops, wanted: _Wanted) -> list[StepFigures]:
    """Steps of one engine; the prefill is timed with drafts off."""
    from deepinfer.bench.graph_nodes import kept_graphs
    from deepinfer.bench.step_bench import StepBench
    from deepinfer.llm import LLM

    drafts, number = mode
    speculative = drafts.options(number or None, "measure", {})
    with kept_graphs(), LLM(**options, speculative=speculative) as llm:
        bench = StepBench(llm, drafts, number, wanted.repeats)
        found = []
        for batch in wanted.batches:
            called = [] if drafts is DraftMode.SCHEDULED else ops[batch, number]
            found.append(bench.decode(batch, called, wanted.context_len, wanted.num_steps))
        if wanted.prefill is not None and drafts is DraftMode.OFF:
            found.append(bench.prefill(wanted.prefill, ops[wanted.prefill]))
    return found
