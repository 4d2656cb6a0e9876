"""One Triton kernel to compile: the form of a `KernelSpec` for small kernels that are written in Triton."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend

from tilelang_ops.jit.arch import ARCHES

_CAPABILITIES = {"sm_90a": 90, "sm_100a": 100}
_ALIGNED = "D"  # Triton's word for an address that is a multiple of 16


@dataclass(frozen=True)
class TritonSpec:
    """What ahead-of-time compilation and the listing of kernels need to know of a kernel.

    Attributes:
        name: "family.op", with the form behind it where an op has several.
        kernel: a function under `triton_jit`, its numbers not specialised.
        signature: types of its arguments in order, constants left out.
        statics: its constants by name.
        num_warps: of a program. Launches name it, and ``enable_fp_fusion=False``: with other options Triton would not
            find the kernel compiled ahead of time.
        instructions: by architecture, a word that the code must contain; none of these use matrix instructions.
        note: of the listing.
        arches: those it is compiled for.
    """

    name: str
    kernel: Any
    signature: tuple[str, ...]
    statics: Mapping[str, Any]
    num_warps: int
    instructions: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    arches: tuple[str, ...] = ARCHES

    def source(self, arch: str) -> str:
        """PTX of the kernel, compiled to a cubin for "sm_90a" or "sm_100a" into TRITON_CACHE_DIR; needs no GPU."""
        target = GPUTarget("cuda", _CAPABILITIES[arch], 32)
        given = {"num_warps": self.num_warps, "enable_fp_fusion": False}
        # The key under which a launch looks for the kernel, made of what it would find out about its arguments by
        # Triton's own means: which attributes are part of it is another matter in every version.
        found = [(kind, _ALIGNED if kind.startswith("*") else None) for kind in self.signature]
        found += [("constexpr", value) for value in self.statics.values()]
        bound = dict.fromkeys(self.kernel.arg_names) | dict(self.statics)
        packed = self.kernel._pack_args(make_backend(target), given, bound, found, given)
        options, types, constants, attributes = packed
        source = ASTSource(self.kernel, types, constants, attributes)
        compiled = triton.compile(source, target=target, options=options.__dict__)
        return str(compiled.asm["ptx"])

    def __getstate__(self) -> dict[str, Any]:
        """For another process: the kernel by its place, since it cannot be pickled itself."""
        return self.__dict__ | {"kernel": (self.kernel.fn.__module__, self.kernel.fn.__name__)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        module, name = state["kernel"]
        self.__dict__.update(state | {"kernel": getattr(importlib.import_module(module), name)})
