"""Compiles a kernel for one architecture, once per process and static arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tilelang


@functools.cache
def compiled(factory: Callable[..., Any], arch: str, **statics: Any) -> Any:
    """The callable kernel of ``factory(arch, **statics)``.

    A GPU is not needed: with TILELANG_CACHE_DIR filled on another machine nothing is compiled again.

    Args:
        factory: makes the TileLang prim_func; every tensor, outputs included, is an argument of the kernel. It may be
            marked (`hand_synced`).
        arch: "sm_90a" or "sm_100a".
        statics: hashable compile-time arguments of the factory.
    """
    configs = getattr(factory, "pass_configs", None)
    return tilelang.compile(factory(arch, **statics), target={"kind": "cuda", "arch": arch}, pass_configs=configs)
