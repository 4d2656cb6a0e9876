"""How every command ends when something goes wrong: one line on standard error and an exit code."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import typer

from deepinfer.cli.exit_code import ExitCode
from deepinfer.errors import (
    ConfigError,
    DeepInferError,
    JobError,
    JobWriteError,
    RequestError,
    UnsupportedFeatureError,
)

_USAGE = (RequestError, ConfigError, JobError, UnsupportedFeatureError)


@contextmanager
def reported_errors() -> Generator[None, None, None]:
    """Inside, whatever is raised becomes a message and the exit code of a wrong call or of a failing engine."""
    try:
        yield
    except typer.Exit:
        raise
    except Exception as error:
        is_usage = isinstance(error, _USAGE) and not isinstance(error, JobWriteError)
        shown = str(error) if isinstance(error, DeepInferError) else repr(error)
        if isinstance(error, OSError) and error.strerror:
            shown = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
        typer.echo(f"error: {shown}", err=True)
        raise typer.Exit(ExitCode.USAGE if is_usage else ExitCode.ENGINE) from error
