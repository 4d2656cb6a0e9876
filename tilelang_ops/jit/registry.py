"""Every kernel of the package for a model's sizes, for ahead-of-time compilation and listing."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import tilelang_ops
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.jit.triton_spec import TritonSpec


def kernel_specs(sizes: ModelSizes) -> Iterator[KernelSpec | TritonSpec]:
    """The specs of all op files, in the order of their names; an op file lists its own in `kernel_specs`."""
    for module in pkgutil.walk_packages(tilelang_ops.__path__, "tilelang_ops."):
        if module.ispkg or module.name.startswith("tilelang_ops.jit."):
            continue
        specs = getattr(importlib.import_module(module.name), "kernel_specs", None)
        if specs is not None:
            yield from specs(sizes)
