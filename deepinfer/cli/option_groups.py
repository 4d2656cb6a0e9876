"""Options that several commands share, declared once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from inspect import Signature, signature
from typing import Any


def takes(*groups: Callable[..., None]) -> Callable[[Callable[[dict[str, Any]], None]], Callable[..., None]]:
    """Gives a command the parameters of `groups`, functions that are there for their signatures alone.

    The command itself gets one mapping: name -> value of every option that was given or has a default but None. For
    typer, which makes the command line from a signature, it has the parameters of all groups, in their order.
    """
    parameters = [parameter for group in groups for parameter in signature(group, eval_str=True).parameters.values()]

    def decorate(command: Callable[[dict[str, Any]], None]) -> Callable[..., None]:
        @functools.wraps(command)
        def spread(**options: Any) -> None:
            command({name: value for name, value in options.items() if value is not None})

        del spread.__wrapped__  # or typer would look at the signature behind it
        spread.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        spread.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return spread

    return decorate
