"""`triton.jit`, with a cache key that does not depend on which other kernels a process has met before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triton


def triton_jit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Decorate a kernel or a function that kernels call; with or without options of `triton.jit`.

    Triton makes a function's key when it is first asked for. The constants of the functions that it calls become part
    of it only if those have a key by then, be it by way of another kernel, so a kernel that was compiled ahead of time
    might not be found. Here each has its key as soon as it is defined, which is after all that it calls.
    """
    if function is None:
        return lambda decorated: triton_jit(decorated, **options)
    made = triton.jit(function, **options)
    getattr(made, "cache_key", None)  # Triton's interpreter has none
    return made
