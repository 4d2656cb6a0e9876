"""Loggers of the library: all below ``deepinfer``; shown on standard error until the application takes over."""

from __future__ import annotations

import contextlib
import logging
import sys

_ROOT = "deepinfer"


class _DefaultHandler(logging.Handler):
    """Writes to standard error as long as the application has no handler of its own.

    Without a usable standard error (a daemon's, a closed pipe) messages are lost: they are no reason to fail.
    """

    def emit(self, record: logging.LogRecord) -> None:
        if logging.getLogger().handlers or sys.stderr is None:
            return
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(self.format(record) + "\n")


def get_logger(name: str) -> logging.Logger:
    """The logger of a module; pass ``__name__``."""
    return logging.getLogger(name if name.startswith(_ROOT) else f"{_ROOT}.{name}")


def show_by_default() -> None:
    """Show messages from INFO on, unless the application has set up logging or chosen a level; idempotent."""
    logger = logging.getLogger(_ROOT)
    if logger.handlers or logging.getLogger().handlers:
        return
    handler = _DefaultHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logger.addHandler(handler)
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)


def set_level(name: str) -> None:
    """Set the library's level: ``off``, ``error``, ``warn`` or ``info``. Raises KeyError for any other word."""
    levels = {"off": logging.CRITICAL + 1, "error": logging.ERROR, "warn": logging.WARNING, "info": logging.INFO}
    logging.getLogger(_ROOT).setLevel(levels[name])
