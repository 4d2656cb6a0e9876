"""The option ``--data-parallel-size`` of commands that run an engine on many requests."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

DataParallelOption: TypeAlias = Annotated[int, typer.Option(min=1, help="Worker processes that share the prompts.")]
