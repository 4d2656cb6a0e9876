"""``deepinfer bench throughput`` and ``latency``: speed of the whole engine."""

from __future__ import annotations

import json as json_format
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepinfer.bench.draft_mode import DraftMode
from deepinfer.bench.prompt_file import Prompt, mixed_prompts, random_prompts, read_prompts
from deepinfer.cli.overlap_option import OverlapOption
from deepinfer.cli.report_table import ReportTable
from deepinfer.cli.reported_errors import reported_errors
from deepinfer.cli.require_paths import require_paths
from deepinfer.sampling_params import SamplingParams

if TYPE_CHECKING:
    from deepinfer.bench.speed_bench import SpeedFigures
    from deepinfer.llm import LLM

_Model = Annotated[str | None, typer.Option(help="Checkpoint directory or hub id; default: the bundled one.")]
_Backend = Annotated[str, typer.Option(help="auto, reference, cpu or cuda.")]
_Numerics = Annotated[str, typer.Option(help="official, fp32-quant or fp32.")]
_Drafts = Annotated[DraftMode, typer.Option(help="off, fixed (all verified) or scheduled (as many as pay).")]
_PromptLen = Annotated[int | None, typer.Option(min=1, help="Random prompts of so many ids, not --prompts.")]
_Prompts = Annotated[Path | None, typer.Option(help="A .jsonl file of prompts or a text; default: bundled prompts.")]
_OutputLen = Annotated[int, typer.Option(min=2, help="New tokens of each prompt.")]
_Repeats = Annotated[int, typer.Option(min=1, help="Timed runs, after one that warms up.")]
_Threads = Annotated[int | None, typer.Option(min=1, help="Threads; default: as the engine chooses.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def throughput(
    model: _Model = None,
    backend: _Backend = "auto",
    numerics: _Numerics = "official",
    drafts: _Drafts = DraftMode.OFF,
    batch: Annotated[int, typer.Option(min=1, help="Prompts at a time.")] = 16,
    prompt_len: _PromptLen = None,
    prompts: _Prompts = None,
    output_len: _OutputLen = 64,
    repeats: _Repeats = 5,
    num_threads: _Threads = None,
    overlap: OverlapOption = None,
    json: _Json = False,
) -> None:
    """Tokens per second of prefill, of decode and over all, for one batch of prompts."""
    with reported_errors():
        options = _options(model, backend, numerics, drafts, num_threads) | {"overlap": overlap}
        (figures,) = _measure(options, (batch,), (prompt_len, prompts), output_len, repeats)
    if json:
        typer.echo(json_format.dumps(figures.to_dict(), indent=1))
        return
    counts = f"{figures.num_prompt_tokens} prompt tokens, {figures.num_new_tokens} new ones"
    table = ReportTable(f"tokens per second, median (middle half): batch {batch}, {counts}", ("part", "tokens/s"))
    table.add("prefill", figures.prefill_tokens_per_second.shown(digits=1))
    table.add("decode", figures.decode_tokens_per_second.shown(digits=1))
    table.add("new tokens over all", figures.tokens_per_second.shown(digits=1))
    table.show()


def latency(
    model: _Model = None,
    backend: _Backend = "auto",
    numerics: _Numerics = "official",
    drafts: _Drafts = DraftMode.OFF,
    batch: Annotated[list[int] | None, typer.Option(min=1, help="Prompts at a time; may be repeated.")] = None,
    prompt_len: _PromptLen = None,
    prompts: _Prompts = None,
    output_len: _OutputLen = 64,
    repeats: _Repeats = 5,
    num_threads: _Threads = None,
    overlap: OverlapOption = None,
    json: _Json = False,
) -> None:
    """Milliseconds to the first token and of a decode step, by batch size; default: 1, 4 and 16."""
    batches = tuple(batch or (1, 4, 16))
    with reported_errors():
        options = _options(model, backend, numerics, drafts, num_threads) | {"overlap": overlap}
        figures = _measure(options, batches, (prompt_len, prompts), output_len, repeats)
    if json:
        typer.echo(json_format.dumps([item.to_dict() for item in figures], indent=1))
        return
    title = "milliseconds, median (middle half) of the runs' means"
    table = ReportTable(title, ("batch", "first token", "decode step", "tokens/step"), num_left=0)
    for item in figures:
        times = (item.first_token_seconds.shown(1e3), item.step_seconds.shown(1e3))
        table.add(str(item.batch), *times, f"{item.tokens_per_step:.2f}")
    table.show()


def _options(
    model: str | None, backend: str, numerics: str, drafts: DraftMode, num_threads: int | None
) -> dict[str, Any]:
    return {
        "model": model,
        "backend": backend,
        "numerics": numerics,
        "num_threads": num_threads,
        "speculative": drafts.options(None, "measure", {}),
    }


def _measure(
    options: dict[str, Any],
    batches: tuple[int, ...],
    source: tuple[int | None, Path | None],
    output_len: int,
    repeats: int,
) -> list[SpeedFigures]:
    require_paths(source[1], None)
    from deepinfer.bench.speed_bench import measure_speed
    from deepinfer.llm import LLM

    params = SamplingParams(temperature=0.0, max_tokens=output_len, ignore_eos=True)
    with LLM(**options, max_num_seqs=max(batches)) as llm:
        prompts = _prompts(llm, max(batches), *source)
        return measure_speed(llm, [prompts[:batch] for batch in batches], params, repeats)


def _prompts(llm: LLM, number: int, length: int | None, path: Path | None) -> Sequence[Prompt]:
    if length is not None:
        return random_prompts(llm.get_tokenizer(), number, length)
    if path is None:
        return mixed_prompts(number)
    prompts = read_prompts(path, llm.get_tokenizer(), number)
    return [prompts[i % len(prompts)] for i in range(number)]
