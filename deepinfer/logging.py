"""Loggers of the library: all below ``deepinfer``, no handlers of our own, so that the application decides."""

from __future__ import annotations

import logging

_ROOT = "deepinfer"


def get_logger(name: str) -> logging.Logger:
    """The logger of a module; pass ``__name__``."""
    return logging.getLogger(name if name.startswith(_ROOT) else f"{_ROOT}.{name}")


def set_level(name: str) -> None:
    """Set the library's level: ``off``, ``error``, ``warn`` or ``info``. Raises KeyError for any other word."""
    levels = {"off": logging.CRITICAL + 1, "error": logging.ERROR, "warn": logging.WARNING, "info": logging.INFO}
    logging.getLogger(_ROOT).setLevel(levels[name])
