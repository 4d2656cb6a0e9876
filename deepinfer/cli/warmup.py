"""``deepinfer warmup``: compiles the GPU kernels of models ahead of time, without a GPU."""

from __future__ import annotations

import json as json_format
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from deepinfer.cli.reported_errors import reported_errors
from deepinfer.errors import ConfigError

_MAX_RANKS: Final = 4096


def warmup(
    models: Annotated[
        list[Path] | None, typer.Argument(help="Checkpoint directories or config files; none: the bundled model.")
    ] = None,
    arch: Annotated[str, typer.Option(help="Architectures, separated by commas.")] = "sm_90a",
    block_size: Annotated[int, typer.Option(min=1, help="Tokens of a cache block.")] = 128,
    expert_parallel: Annotated[
        str, typer.Option(help="Also for so many ranks that share the experts, e.g. 2,4,8.")
    ] = "",
    redundant_experts: Annotated[int, typer.Option(min=0, help="num_redundant_experts of these ranks.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Compiler processes.")] = 2,
    check: Annotated[bool, typer.Option("--check", help="Fail unless every kernel has its instruction.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """Fill the kernel cache (DEEPINFER_JIT_CACHE_DIR) for a GPU that need not be here."""
    begin, total, faults = time.perf_counter(), 0, 0
    with reported_errors():
        ranks = _numbers(expert_parallel)
        cache, kernels = _begun(models or [], arch.split(","), (block_size, ranks, redundant_experts), jobs)
        for kernel in kernels:
            total, faults = total + 1, faults + bool(kernel.fault)
            typer.echo(json_format.dumps(asdict(kernel)) if json else _line(kernel))
    seconds = time.perf_counter() - begin
    typer.echo(f"{total} kernels in {seconds:.0f} s, {faults} of them not as they should be; cache: {cache}", err=True)
    if faults and check:
        raise typer.Exit(1)


def _numbers(text: str) -> list[int]:
    words = text.split(",") if text else []
    if not all(word.isascii() and word.isdigit() and 1 <= int(word) <= _MAX_RANKS for word in words):
        raise ConfigError(f"--expert-parallel {text!r}: expected numbers of ranks separated by commas, such as 2,4,8")
    return [int(word) for word in words]


def _begun(
    models: list[Path], arches: list[str], sizes: tuple[int, list[int], int], jobs: int
) -> tuple[Path, Iterator[Any]]:
    """Folder of the kernel cache, and the kernels as they are finished.

    `sizes`: of a cache block; numbers of ranks that share the experts; redundant experts.
    """
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
    block_size, num_ranks, redundant = sizes
    of_models = [
        model_sizes(config, block_size, _num_drafts(config), _places(config, num_ranks, redundant))
        for config in configs
    ]
    return cache, compile_kernels(of_models, arches, jobs)


def _places(config: Any, num_ranks: list[int], num_redundant: int) -> tuple[int, ...]:
    """For experts of a layer, and of a draft stage, on one of so many ranks."""
    from deepinfer.distributed.expert_placement import ExpertPlacement

    counts = (config.n_routed_experts, *((config.dspark_n_routed_experts,) if _num_drafts(config) else ()))
    return tuple(ExpertPlacement.round_up(count, num_redundant, n) // n for n in num_ranks for count in counts)


def _num_drafts(config: Any) -> int:
    return config.dspark_block_size if config.num_nextn_predict_layers else 0


def _line(kernel: Any) -> str:
    found = ", ".join(kernel.instructions) or "-"
    return f"{kernel.arch:8} {kernel.name:36} {kernel.seconds:6.1f} s  {found:18} {kernel.statics} {kernel.fault}"
