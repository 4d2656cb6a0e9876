"""``deepinfer env``: what this installation is, what it would run on, and which variables it sees."""

from __future__ import annotations

import json as json_format
import os
import platform
from typing import Annotated, Any

import typer

import deepinfer
from deepinfer.cli.reported_errors import reported_errors
from deepinfer.envs import EnvFinding, read_environment
from deepinfer.errors import CheckpointError


def env(
    device: Annotated[str, typer.Option(help="Device the backend is chosen for.")] = "auto",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show versions, the chosen backend (and why not the others), optional kernels and the DEEPINFER_ variables set."""
    variables = [_row(finding) for finding in read_environment().findings]
    with reported_errors():
        report = {**_versions(), **_backend(device), **_optional_kernels(), "environment": variables}
    if json:
        typer.echo(json_format.dumps(report, indent=1))
        return
    for name in ("deepinfer", "python", "torch", "num_threads", "num_cpus", "gpus", "bundled_model", "device"):
        typer.echo(f"{name:<14} {report[name]}")
    typer.echo(f"{'backend':<14} {report['backend']}: {report['reason']}")
    for name, reason in report["rejected"].items():
        typer.echo(f"{'':<14} not {name}: {reason}")
    for name, reason in report["optional_kernels"].items():
        typer.echo(f"{'':<14} {name} is not used: {reason}")
    for row in report["environment"]:
        typer.echo(f"{row['name']}={row['text']!r}: {row['effect']}")


def _versions() -> dict[str, Any]:
    import torch

    from deepinfer.engine.model_path import bundled_model_path

    try:
        bundled = str(bundled_model_path())
    except CheckpointError as error:
        bundled = str(error)
    return {
        "deepinfer": deepinfer.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "num_threads": torch.get_num_threads(),
        "num_cpus": len(os.sched_getaffinity(0)),
        "gpus": [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())],
        "bundled_model": bundled,
    }


def _backend(device: str) -> dict[str, Any]:
    from deepinfer.ops.select import select_backend
    from deepinfer.worker.device import resolve_device

    selected = select_backend("auto", device)
    return {
        "device": str(resolve_device(device, selected.name)),
        "backend": selected.name,
        "reason": selected.reason,
        "rejected": selected.rejected,
    }


def _optional_kernels() -> dict[str, Any]:
    from deepinfer.ops.cuda.optional_kernels import OPTIONAL_KERNELS

    return {"optional_kernels": {kernel.name: kernel.why_unused() for kernel in OPTIONAL_KERNELS}}


def _row(finding: EnvFinding) -> dict[str, Any]:
    use = "unknown" if finding.use is None else finding.use.value
    effect = f"error: {finding.note}" if finding.is_error else finding.note
    return {"name": finding.name, "text": finding.text, "value": finding.value, "use": use, "effect": effect}
