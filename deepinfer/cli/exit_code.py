"""What the command line's exit codes mean."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every command."""

    OK = 0
    SOME_FAILED = 1
    USAGE = 2
    ENGINE = 3
    UNFINISHED = 4
