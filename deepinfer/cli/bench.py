"""``deepinfer bench``: speed of the engine and its parts; what drafts gain, and how often they are accepted."""

from __future__ import annotations

import json as json_format
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from deepinfer.bench.draft_mode import DraftMode
from deepinfer.bench.prompt_file import Prompt, bundled_prompts, mixed_prompts, read_prompts
from deepinfer.bench.reliability_plot import PLOT_ENDINGS, draw_reliability, require_matplotlib
from deepinfer.cli.bench_ops import ops
from deepinfer.cli.bench_plot import plot as plot_results
from deepinfer.cli.bench_scheduler import scheduler
from deepinfer.cli.bench_speed import latency, throughput
from deepinfer.cli.bench_step import step
from deepinfer.cli.reported_errors import reported_errors
from deepinfer.cli.require_paths import require_paths
from deepinfer.config.speculative_config import SpeculativeConfig
from deepinfer.sampling_params import SamplingParams

if TYPE_CHECKING:
    from deepinfer.bench.draft_counts import DraftCounts
    from deepinfer.bench.speculative_bench import ModeFigures
    from deepinfer.llm import LLM

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Measure speed and drafts.")
for command in (throughput, latency, step, ops, scheduler):
    app.command()(command)
app.command("plot")(plot_results)

_Model = Annotated[str | None, typer.Option(help="Checkpoint directory or hub id; default: the bundled one.")]
_Drafts = Annotated[int | None, typer.Option(help="Drafts per step; default: as the model was trained.")]
_Prompts = Annotated[Path | None, typer.Option(help="A .jsonl file of prompts or a text; default: bundled prompts.")]
_Numerics = Annotated[str, typer.Option(help="official, fp32-quant or fp32.")]
_Temperature = Annotated[float, typer.Option(help="0 is greedy.")]
_Acceptance = Annotated[str | None, typer.Option(help="How drafts are accepted: coupled or rejection.")]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]


@app.command()
def speculative(
    model: _Model = None,
    num_drafts: _Drafts = None,
    batch: Annotated[int, typer.Option(min=1, help="Prompts at a time.")] = 8,
    max_tokens: Annotated[int, typer.Option(min=2, help="New tokens of each prompt.")] = 64,
    repeats: Annotated[int, typer.Option(min=1, help="Timed runs of each mode, in turns; the median counts.")] = 3,
    temperature: _Temperature = 0.0,
    curve: Annotated[str, typer.Option(help="Cost curve of the scheduled mode: measure, guess or a file.")] = "measure",
    prompts: _Prompts = None,
    numerics: _Numerics = "official",
    acceptance: _Acceptance = None,
    cpu_time: Annotated[bool, typer.Option("--cpu-time", help="Count processor time: for a shared machine.")] = False,
    json: _Json = False,
    plot: Annotated[Path | None, typer.Option(help="Reliability diagram of the fixed mode, .svg or .png.")] = None,
) -> None:
    """Compare drafts off, fixed (all verified) and scheduled (as many as pay), side by side."""
    with reported_errors():
        require_paths(prompts, plot, PLOT_ENDINGS)
        if plot is not None:
            require_matplotlib()
        from deepinfer.bench.speculative_bench import compare_modes

        def options(mode: DraftMode) -> dict[str, Any]:
            drafts = mode.options(num_drafts, curve, _given(acceptance=acceptance))
            fields = {"model": model, "numerics": numerics, "max_num_seqs": batch, "speculative": drafts}
            return fields | _invariance(acceptance)

        for mode in DraftMode:
            SpeculativeConfig.parse(options(mode)["speculative"])  # a wrong one must not cost the loading of the others
        clock = time.process_time if cpu_time else time.perf_counter
        params = SamplingParams(temperature=temperature, max_tokens=max_tokens, ignore_eos=True, seed=0)
        figures = compare_modes(options, lambda llm: _batch(llm, prompts, batch), params, repeats, clock)
        if plot is not None:
            draw_reliability(figures[list(DraftMode).index(DraftMode.FIXED)].counts.calibration, plot)
    if json:
        typer.echo(json_format.dumps([item.to_dict() for item in figures], indent=1))
    else:
        Console().print(mode_table(figures, batch))


@app.command()
def acceptance(
    model: _Model = None,
    num_drafts: _Drafts = None,
    max_tokens: Annotated[int, typer.Option(min=2, help="New tokens of each prompt.")] = 40,
    temperature: _Temperature = 0.0,
    prompts: _Prompts = None,
    limit: Annotated[int, typer.Option(min=1, help="Prompts taken from a file at most.")] = 256,
    numerics: _Numerics = "official",
    acceptance: _Acceptance = None,
    json: _Json = False,
) -> None:
    """Count tokens per verifying step, all drafts verified, over sets of prompts."""
    with reported_errors():
        require_paths(prompts, None)
        from deepinfer.bench.acceptance_bench import measure_acceptance
        from deepinfer.llm import LLM

        drafts = DraftMode.FIXED.options(num_drafts, None, _given(acceptance=acceptance))
        params = SamplingParams(temperature=temperature, max_tokens=max_tokens, seed=0)
        fields = _invariance(acceptance)
        with LLM(model, numerics=numerics, max_num_seqs=32, speculative=drafts, **fields) as llm:
            sets: dict[str, Any] = bundled_prompts()
            if prompts is not None:
                sets = {prompts.name: read_prompts(prompts, llm.get_tokenizer(), limit)}
            counts = measure_acceptance(llm, sets, params)
    if json:
        typer.echo(json_format.dumps({name: item.to_dict() for name, item in counts.items()}, indent=1))
    else:
        Console().print(_acceptance_table(counts))


def _invariance(acceptance: str | None) -> dict[str, Any]:
    """Rejection sampling depends on the batch; else it is the backend's default."""
    return {"batch_invariant": False} if acceptance == "rejection" else {}


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _batch(llm: LLM, path: Path | None, number: int) -> list[Prompt]:
    if path is None:
        return mixed_prompts(number)
    prompts = read_prompts(path, llm.get_tokenizer(), number)
    return [prompts[i % len(prompts)] for i in range(number)]


def mode_table(figures: Sequence[ModeFigures], batch: int) -> Table:
    """One row a mode."""
    table = Table(title=f"batch {batch}", title_justify="left")
    headings = ("drafts", "tokens/s", "x off", "tokens/step", "verified/step", "undrafted", "error")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "drafts" else "right")
    for item in figures:
        counts = item.counts
        undrafted = counts.num_undrafted_steps / max(counts.num_decode_steps, 1)
        table.add_row(
            item.mode.value,
            f"{item.tokens_per_second:.1f}",
            f"{item.ratio_to_off:.2f}",
            _number(counts.tokens_per_step),
            _number(counts.verified_per_step),
            "-" if item.mode is DraftMode.OFF else f"{undrafted:.0%}",
            _percent(counts.calibration.expected_error()),
        )
    return table


def _acceptance_table(counts: dict[str, DraftCounts]) -> Table:
    table = Table(title_justify="left")
    for heading in ("prompts", "steps", "tokens/verify step", "accepted by position", "calibration error"):
        table.add_column(heading, justify="left" if heading == "prompts" else "right")
    for name, item in counts.items():
        shares = [f"{a / v:.0%}" if v else "-" for a, v in zip(item.accepted_at, item.verified_at, strict=True)]
        error = _percent(item.calibration.expected_error())
        table.add_row(name, str(item.num_verify_steps), _number(item.tokens_per_verify_step), " ".join(shares), error)
    return table


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
