"""What a collective call raises when another rank is gone."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from deepinfer.errors import PeerLostError


@contextmanager
def peer_calls() -> Generator[None, None, None]:
    """Around calls of torch.distributed: its errors are PeerLostError."""
    try:
        yield
    except RuntimeError as error:
        raise PeerLostError(f"a collective call failed, as it does when another rank is gone: {error}") from error
