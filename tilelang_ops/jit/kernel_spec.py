"""One kernel to compile: a factory and its static arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tilelang_ops.jit.arch import ARCHES
from tilelang_ops.jit.compiled import compiled


@dataclass(frozen=True)
class KernelSpec:
    """What ahead-of-time compilation and the listing of `doc/kernels.md` need to know of a kernel.

    Attributes:
        name: "family.op", with the form behind it where an op has several ("gemm.fp8_linear.gemv").
        factory: ``factory(arch, **statics) -> PrimFunc``; every size that is fixed at load is in `statics`.
        statics: hashable static arguments by name.
        instructions: by architecture, a word that the generated source must contain ("wgmma", "tcgen05"). A kernel
            that names "tcgen05" may not contain another matrix instruction there.
        arches: those it is compiled for.
        note: why an architecture uses mma.sync or no tensor cores, for matrix kernels.
    """

    name: str
    factory: Callable[..., Any]
    statics: dict[str, Any]
    instructions: dict[str, str] = field(default_factory=dict)
    note: str = ""
    arches: tuple[str, ...] = ARCHES

    def source(self, arch: str) -> str:
        """CUDA source of the kernel, compiled for "sm_90a" or "sm_100a" into the kernel cache; needs no GPU."""
        return str(compiled(self.factory, arch, **self.statics).get_kernel_source())
