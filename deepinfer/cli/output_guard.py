"""What becomes of a command whose standard output cannot be written: one line on standard error and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress

import typer

from deepinfer.cli.exit_code import ExitCode


@contextmanager
def guarded_output() -> Generator[None, None, None]:
    """Inside, a failed write (a full disk, a closed descriptor) ends the command with a message instead of a traceback;
    what is still buffered is written at the end, under the same guard. A reader that went away ends it silently.
    """
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:  # None: the descriptor was closed from the start
                sys.stdout.flush()
    except BrokenPipeError:
        _forget_output()
        raise SystemExit(ExitCode.ENGINE) from None
    except OSError as error:
        _forget_output()
        with suppress(OSError):
            typer.echo(f"error: standard output cannot be written ({error.strerror or error})", err=True)
        raise SystemExit(ExitCode.ENGINE) from None


def _forget_output() -> None:
    """Leads the rest of the buffer nowhere, so that the interpreter's own flush at exit does not fail again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
