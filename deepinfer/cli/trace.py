"""``deepinfer trace``: what an engine does and when, as a chrome-trace file; ``trace summary`` reads one."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from deepinfer.bench.prompt_file import mixed_prompts, random_prompts
from deepinfer.cli.batch_options import named_values
from deepinfer.cli.overlap_option import OverlapOption
from deepinfer.cli.report_table import ReportTable
from deepinfer.cli.reported_errors import reported_errors
from deepinfer.cli.require_paths import require_paths
from deepinfer.sampling_params import SamplingParams

if TYPE_CHECKING:
    from deepinfer.profile.step_trace import StepTrace
    from deepinfer.profile.trace_summary import TraceSummary

_MOST_OPS = 12  # lines of the summary


class _RecordUnlessNamed(TyperGroup):
    """Without the name of a command, ``record`` is meant."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help"):
            args = ["record", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_RecordUnlessNamed,
    add_completion=False,
    no_args_is_help=True,
    help="Trace steps: deepinfer trace OUT.json. For chrome://tracing and ui.perfetto.dev.",
)

_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
_Kind = Annotated[str, typer.Option(help="Steps that are summed up: decode or prefill.")]


@app.command()
def record(
    output: Annotated[Path, typer.Argument(help="The trace, JSON.")],
    model: Annotated[str | None, typer.Option(help="Checkpoint directory or hub id; default: the bundled one.")] = None,
    backend: Annotated[str, typer.Option(help="auto, reference, cpu or cuda.")] = "auto",
    numerics: Annotated[str, typer.Option(help="official, fp32-quant or fp32.")] = "official",
    drafts: Annotated[bool, typer.Option("--drafts", help="Decode with drafts.")] = False,
    batch: Annotated[int, typer.Option(min=1, help="Prompts at a time.")] = 1,
    prompt_len: Annotated[int | None, typer.Option(min=1, help="Random prompts of so many ids.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="Tokens of each prompt behind the first one.")] = 32,
    num_threads: Annotated[int | None, typer.Option(min=1, help="Threads; default: as the engine chooses.")] = None,
    overlap: OverlapOption = None,
    engine: Annotated[list[str] | None, typer.Option(help="Further engine option, NAME=JSON; may be repeated.")] = None,
    json: _Json = False,
) -> None:
    """Decode a batch of prompts, write the trace of its steps and sum it up."""
    options: dict[str, Any] = {
        "model": model,
        "backend": backend,
        "numerics": numerics,
        "max_num_seqs": batch,
        "num_threads": num_threads,
        "overlap": overlap,
        "speculative": {"varlen": False} if drafts else "off",
    }
    params = SamplingParams(temperature=0.0, max_tokens=steps + 1, ignore_eos=True)
    with reported_errors():
        require_paths(None, output)
        options |= named_values(engine, "--engine")
        from deepinfer.llm import LLM

        with LLM(**options) as llm:
            random = None if prompt_len is None else random_prompts(llm.get_tokenizer(), batch, prompt_len)
            prompts = mixed_prompts(batch) if random is None else random
            llm.generate(prompts, params, use_tqdm=False, strict=True)  # memory and caches of the machine get ready
            with llm.trace() as trace:
                llm.generate(prompts, params, use_tqdm=False, strict=True)
        trace.write(output)
        _show(trace, "decode", json)


@app.command()
def summary(
    file: Annotated[Path, typer.Argument(help="A file made by deepinfer trace.")],
    kind: _Kind = "decode",
    json: _Json = False,
) -> None:
    """Waits of device and host by kind of step, share of native code, gaps by phase, and the longest ops of a trace."""
    with reported_errors():
        from deepinfer.profile.step_trace import StepTrace

        _show(StepTrace.read(file), kind, json)


def _show(trace: StepTrace, kind: str, json: bool) -> None:
    from deepinfer.profile.trace_summary import TraceSummary

    result = TraceSummary.of(trace, kind)
    if json:
        content = {"modes": trace.modes, "num_lost": trace.num_lost, **result.to_dict()}
        typer.echo(json_format.dumps(content, indent=1))
        return
    typer.echo(", ".join(f"{name} {value}" for name, value in trace.modes.items()))
    shares = f"{result.native_share:.1%} inside native calls ({result.kernel_share:.1%} inside their ops)"
    typer.echo(f"{result.num_steps} {kind} steps, median {result.step_us:.0f} us: {shares}")
    typer.echo(f"{result.native_share_of_loop:.1%} inside native calls with the time between steps")
    if result.exchanges is not None:
        times = f"{result.exchanges.flight_us:.0f} us, of which {result.exchanges.waited_us:.0f} us were waited for"
        typer.echo(f"exchanges between ranks: {times} ({result.exchanges.hidden_share:.0%} hidden)")
    if result.gaps:
        _gap_table(result).show()
    _phase_table(result).show()
    _op_table(result).show()


def _gap_table(result: TraceSummary) -> ReportTable:
    headings = ("step", "number", "device", "idle before", "idle inside", "idle", "host", "launch", "wait", "hidden")
    table = ReportTable("device and host, median microseconds", headings)
    for item in result.gaps:
        before = "-" if item.idle_before_us is None else f"{item.idle_before_us:.1f}"
        share = "-" if item.idle_share is None else f"{item.idle_share:.1%}"
        times = (f"{us:.1f}" for us in (item.host_us, item.launch_us, item.wait_us))
        device = (f"{item.device_us:.1f}", before, f"{item.idle_inside_us:.1f}", share)
        table.add(item.kind, str(item.num_steps), *device, *times, f"{item.hidden_share:.0%}")
    return table


def _phase_table(result: TraceSummary) -> ReportTable:
    table = ReportTable("phases, median microseconds", ("phase", "us", "native", "ops", "gaps"))
    for item in result.phases:
        figures = (item.us, item.native_us, item.kernel_us, item.gap_us)
        table.add(item.name, *(f"{figure:.1f}" for figure in figures))
    return table


def _op_table(result: TraceSummary) -> ReportTable:
    table = ReportTable("ops of a step", ("op", "calls", "us", "share"))
    for name, calls, us in result.ops[:_MOST_OPS]:
        table.add(name, f"{calls:.1f}", f"{us:.1f}", f"{us / result.step_us:.1%}")
    return table
