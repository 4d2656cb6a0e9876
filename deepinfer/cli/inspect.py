"""``deepinfer inspect``: what a checkpoint holds, what it needs, and whether it fits."""

from __future__ import annotations

import json as json_format
import re
from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from deepinfer.checkpoint.checkpoint_report import CheckpointReport
from deepinfer.checkpoint.inspect import inspect_checkpoint
from deepinfer.checkpoint.memory_fit import MemoryFit
from deepinfer.cli.reported_errors import reported_errors
from deepinfer.config.byte_size import format_byte_size, parse_byte_size
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.config.numerics import Numerics
from deepinfer.core.cache_spec import CacheSpec
from deepinfer.worker.cost_report import cost_report
from deepinfer.worker.cost_totals import CostTotals
from deepinfer.worker.kv_cache import cache_table
from deepinfer.worker.length_fit import LengthFit

_STEP_ROWS = 2048  # an engine's token budget on a CPU
_BLOCK_SIZE = 128  # any fitting size gives the same bytes per token


def inspect(
    path: Annotated[Path, typer.Argument(help="Checkpoint directory, directory with config.json, or config file.")],
    memory: Annotated[
        str | None, typer.Option(help="Memory to fit the model into, e.g. 141GB or 4x80GiB (devices x size).")
    ] = None,
    tokens: Annotated[
        int, typer.Option(help="Prompt tokens of the cost estimate and of the memory fit.", min=1, max=2**24)
    ] = 2048,
    batch: Annotated[int, typer.Option(help="Sequences of the cost estimate.", min=1, max=2**20)] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Count tensors, bytes, caches, active parameters and what steps cost; loads no weight."""
    with reported_errors():
        report = inspect_checkpoint(path, _cache_layout, _memory_bytes(memory))
        config = DeepSeekV41Config.from_path(path)
        costs = cost_report(config, tokens, batch)
        lengths = None if report.memory is None else _length_fit(config, report.memory, tokens)
    if json:
        values = asdict(report) | {"costs": {label: asdict(cost) for label, cost in costs.items()}}
        values["lengths"] = None if lengths is None else asdict(lengths)
        typer.echo(json_format.dumps(values, indent=1))
    else:
        console = Console()
        _show(report, console)
        if lengths is not None:
            console.print(_length_text(lengths))
        console.print(_cost_table(costs, f"{batch} x {tokens:,} tokens"))


def _cache_layout(config: DeepSeekV41Config) -> tuple[CacheSpec, ...]:
    return cache_table(config, Numerics.OFFICIAL, "auto", _BLOCK_SIZE)


def _memory_bytes(text: str | None) -> int | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,6})\s*x\s*(.+)", text)
    return int(match[1]) * parse_byte_size(match[2]) if match else parse_byte_size(text)


def _show(report: CheckpointReport, console: Console) -> None:
    files = f"{report.num_shards} files, valid" if report.num_shards else "config only"
    summary = Table(title=f"{report.path} ({files})", show_header=False, title_justify="left")
    summary.add_column(style="bold")
    summary.add_column(justify="right")
    for label, value in (
        ("tensors", f"{report.num_tensors:,}"),
        ("payload bytes", f"{report.num_bytes:,}"),
        ("parameters (text model)", f"{report.num_parameters:,}"),
        ("parameters of Engram tables", f"{report.num_table_parameters:,}"),
        ("active parameters per prompt token (encoder half)", f"{report.active_prefill_parameters:,}"),
        ("active parameters per decoded token", f"{report.active_decode_parameters:,}"),
        ("KV cache bytes per token", f"{report.kv_bytes_per_token:,g}"),
        ("state bytes per sequence", f"{report.state_bytes_per_sequence:,}"),
    ):
        summary.add_row(label, value)
    console.print(summary)
    console.print(_bytes_table("storage type", report.bytes_by_dtype, report.num_bytes))
    console.print(_bytes_table("part", report.bytes_by_group, report.num_bytes))
    if report.memory is not None:
        console.print(_fit_text(report.memory))


def _bytes_table(title: str, sizes: dict[str, int], total: int) -> Table:
    table = Table(title_justify="left")
    table.add_column(title)
    for heading in ("bytes", "size", "share"):
        table.add_column(heading, justify="right")
    for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
        table.add_row(name, f"{size:,}", format_byte_size(size), f"{size / total:.1%}")
    return table


def _length_fit(config: DeepSeekV41Config, fit: MemoryFit, num_tokens: int) -> LengthFit:
    return LengthFit.of(config, fit.memory_bytes - fit.weight_bytes, num_tokens, _STEP_ROWS)


def _length_text(fit: LengthFit) -> str:
    return (
        f"  beside all weights and a step of {fit.num_rows:,} rows (about {format_byte_size(fit.scratch_bytes)}): "
        f"{fit.num_seqs:,} sequences of {fit.num_tokens:,} tokens at once, or one of up to {fit.longest:,}"
    )


def _cost_table(costs: dict[str, CostTotals], title: str) -> Table:
    """Multiply-adds by operand type, FLOPs, and bytes by class: what measured time can be held against."""
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for label in costs:
        table.add_column(label, justify="right")
    for name in (field.name for field in fields(CostTotals)):
        values = [getattr(cost, name) for cost in costs.values()]
        is_bytes = name.endswith("_bytes")
        label = f"{name.removesuffix('_bytes').replace('_', ' ')} bytes" if is_bytes else f"{name} MACs"
        table.add_row(label, *(format_byte_size(v) if is_bytes else f"{v:.4g}" for v in values))
    table.add_row("FLOPs", *(f"{cost.flops:.4g}" for cost in costs.values()), style="bold")
    table.add_row("FP8-equivalent FLOPs", *(f"{cost.fp8_equivalent_flops:.4g}" for cost in costs.values()))
    table.add_row("bytes", *(format_byte_size(cost.bytes) for cost in costs.values()), style="bold")
    return table


def _fit_text(fit: MemoryFit) -> str:
    def line(label: str, weight_bytes: int, fits: bool, tokens: int) -> str:
        outcome = f"fits, {tokens:,} tokens of KV cache" if fits else "does not fit"
        return f"{label} ({format_byte_size(weight_bytes)}): {outcome}"

    lines = [
        f"In {format_byte_size(fit.memory_bytes)}:",
        line("all weights", fit.weight_bytes, fit.fits, fit.kv_tokens),
    ]
    if fit.table_bytes:
        rest = fit.weight_bytes - fit.table_bytes
        label = "Engram tables elsewhere"
        lines.append(line(label, rest, fit.fits_without_tables, fit.kv_tokens_without_tables))
    return "\n  ".join(lines)
