"""Objects whose own methods raise, as a caller's library may hand them in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Hostile:
    """Raises wherever Python asks it something."""

    def _refuse(self, *arguments: Any) -> Any:
        raise ArithmeticError("hostile")

    __bool__ = __len__ = __iter__ = __getitem__ = __index__ = __int__ = __contains__ = _refuse
    __eq__ = __ne__ = __lt__ = __hash__ = __str__ = __repr__ = __array__ = _refuse


class HostileList(list):
    """Full, but nobody may look inside."""

    __len__ = __iter__ = __getitem__ = Hostile._refuse


class HostileDict(dict):
    """Says what keys it has, and no more."""

    __getitem__ = get = items = values = Hostile._refuse


class HostileText(str):
    """Characters are there; its methods are not."""

    __len__ = __eq__ = __hash__ = __contains__ = encode = startswith = Hostile._refuse


def hostile_prompts() -> Iterator[Any]:
    """Prompts that cannot be read."""
    yield Hostile()
    yield [Hostile()]
    yield [5, Hostile()]
    yield HostileList([5])
    yield HostileDict(prompt="a")
    yield {"prompt": Hostile()}
    yield {"prompt_token_ids": Hostile()}
    yield {"prompt_token_ids": HostileList([5])}
    yield {"prompt": "a", "multi_modal_data": Hostile()}
    yield {Hostile.__name__: Hostile()}
    yield {5: "a"}
