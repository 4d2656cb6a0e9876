"""Engines with and without overlap, side by side."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.overlap.delays import Delays


@pytest.fixture(scope="module")
def delays() -> Iterator[Delays]:
    """Of the engines that the module builds."""
    delays = Delays()
    with pytest.MonkeyPatch.context() as monkeypatch:
        delays.install(monkeypatch)
        yield delays
