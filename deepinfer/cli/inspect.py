"""``deepinfer inspect``: what a checkpoint holds, what it needs, and whether it fits."""

from __future__ import annotations

import json as json_format
import re
from dataclasses import asdict
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
from deepinfer.worker.kv_cache import cache_table

_BLOCK_SIZE = 128  # any fitting size gives the same bytes per token


def inspect(
    path: Annotated[Path, typer.Argument(help="Checkpoint directory, directory with config.json, or config file.")],
    memory: Annotated[
        str | None, typer.Option(help="Memory to fit the model into, e.g. 141GB or 4x80GiB (devices x size).")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Count tensors, bytes, caches and active parameters; loads no weight."""
    with reported_errors():
        report = inspect_checkpoint(path, _cache_layout, _memory_bytes(memory))
    if json:
        typer.echo(json_format.dumps(asdict(report), indent=1))
    else:
        _show(report, Console())


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
