"""The option ``--overlap`` / ``--no-overlap`` of every command that runs an engine."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

OverlapOption: TypeAlias = Annotated[
    bool | None, typer.Option(help="Keep the books of a step while the device computes the next; default: by backend.")
]
