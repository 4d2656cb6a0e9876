"""``deepinfer warmup``: compiles the GPU kernels of models ahead of time, without a GPU."""

from __future__ import annotations

import json as json_format
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
    with reported_errors():
        faults = 0
        for kernel in _compiled(models or [], arch.split(","), block_size, jobs):
            faults += bool(kernel.fault)
            typer.echo(json_format.dumps(asdict(kernel)) if json else _line(kernel))
    if faults:
        typer.echo(f"{faults} kernels are not as they should be", err=True)
    if faults and check:
        raise typer.Exit(1)


def _compiled(models: list[Path], arches: list[str], block_size: int, jobs: int) -> Any:
    from deepinfer.config.model_config import DeepSeekV41Config
    from deepinfer.engine.model_path import bundled_model_path
    from deepinfer.envs import read_environment
    from deepinfer.ops.cuda.kernel_cache import cuda_toolkit, use_kernel_cache

    use_kernel_cache(read_environment().settings.get("kernel_cache_dir"))
    if cuda_toolkit() is None:
        raise ConfigError("no CUDA toolkit: nvcc is not on the PATH; install one or set CUDA_HOME")
    from deepinfer.ops.cuda.compile_kernels import compile_kernels
    from deepinfer.ops.cuda.model_sizes import model_sizes
    from tilelang_ops.jit.arch import ARCHES

    for arch in arches:
        if arch not in ARCHES:
            raise ConfigError(f"--arch {arch!r}: expected one of {', '.join(ARCHES)}")
    configs = [DeepSeekV41Config.from_path(path) for path in models or [bundled_model_path()]]
    sizes = [model_sizes(config, block_size, _num_drafts(config)) for config in configs]
    return compile_kernels(sizes, arches, jobs)


def _num_drafts(config: Any) -> int:
    return config.dspark_block_size if config.num_nextn_predict_layers else 0


def _line(kernel: Any) -> str:
    found = ", ".join(kernel.instructions) or "-"
    return f"{kernel.arch:8} {kernel.name:36} {kernel.seconds:6.1f} s  {found:18} {kernel.statics} {kernel.fault}"
