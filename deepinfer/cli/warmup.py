"""``deepinfer warmup``: compiles the GPU kernels of models ahead of time, without a GPU."""

from __future__ import annotations

import json as json_format
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from deepinfer.cli.reported_errors import reported_errors
from deepinfer.errors import ConfigError


def warmup(
    models: Annotated[
        list[Path] | None, typer.Argument(help="Checkpoint directories or config files; none: the bundled model.")
    ] = None,
    arch: Annotated[str, typer.Option(help="Architectures, separated by commas.")] = "sm_90a",
    block_size: Annotated[int, typer.Option(min=1, help="Tokens of a cache block.")] = 128,
    jobs: Annotated[int, typer.Option(min=1, help="Compiler processes.")] = 2,
    check: Annotated[bool, typer.Option("--check", help="Fail unless every kernel has its instruction.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """Fill the kernel cache (DEEPINFER_JIT_CACHE_DIR) for a GPU that need not be here."""
    begin, total, faults = time.perf_counter(), 0, 0
    with reported_errors():
        cache, kernels = _begun(models or [], arch.split(","), block_size, jobs)
        for kernel in kernels:
            total, faults = total + 1, faults + bool(kernel.fault)
            typer.echo(json_format.dumps(asdict(kernel)) if json else _line(kernel))
    seconds = time.perf_counter() - begin
    typer.echo(f"{total} kernels in {seconds:.0f} s, {faults} of them not as they should be; cache: {cache}", err=True)
    if faults and check:
        raise typer.Exit(1)


def _begun(models: list[Path], arches: list[str], block_size: int, jobs: int) -> tuple[Path, Iterator[Any]]:
    """Folder of the kernel cache, and the kernels as they are finished."""
    from deepinfer.config.model_config import DeepSeekV41Config
    from deepinfer.engine.model_path import bundled_model_path
    from deepinfer.envs import read_environment
    from deepinfer.ops.cuda.kernel_cache import missing_compiler, use_kernel_cache

    cache = use_kernel_cache(read_environment().settings.get("kernel_cache_dir"))
    missing = missing_compiler()
    if missing is not None:
        raise ConfigError(missing)
    from deepinfer.ops.cuda.compile_kernels import compile_kernels
    from deepinfer.ops.cuda.model_sizes import model_sizes
    from tilelang_ops.jit.arch import ARCHES

    for arch in arches:
        if arch not in ARCHES:
            raise ConfigError(f"--arch {arch!r}: expected one of {', '.join(ARCHES)}")
    configs = [DeepSeekV41Config.from_path(path) for path in models or [bundled_model_path()]]
    sizes = [model_sizes(config, block_size, _num_drafts(config)) for config in configs]
    return cache, compile_kernels(sizes, arches, jobs)


def _num_drafts(config: Any) -> int:
    return config.dspark_block_size if config.num_nextn_predict_layers else 0


def _line(kernel: Any) -> str:
    found = ", ".join(kernel.instructions) or "-"
    return f"{kernel.arch:8} {kernel.name:36} {kernel.seconds:6.1f} s  {found:18} {kernel.statics} {kernel.fault}"
