"""What became of one kernel that was compiled ahead of time."""

from __future__ import annotations

import re
from dataclasses import dataclass

_INSTRUCTIONS = (("wgmma", r"wgmma"), ("tcgen05", r"tcgen05"), ("mma.sync", r"mma_sync|mma\.sync|tl::mma\b"))


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """Made by `compile_kernels`.

    Attributes:
        name: "family.op", with the form behind it where an op has several.
        statics: compile-time arguments as text.
        arch: architecture.
        seconds: time to compile, or to find it in the cache.
        instructions: matrix instructions in its source, of wgmma, tcgen05 and mma.sync.
        wanted: the one that it must use here; "" when any will do.
        note: why it does without the architecture's own.
        error: what failed; "" when nothing did.
    """

    name: str
    statics: str
    arch: str
    seconds: float
    instructions: tuple[str, ...]
    wanted: str
    note: str
    error: str = ""

    @property
    def fault(self) -> str:
        """What is wrong with it, "" for nothing: it failed, lacks its instruction, or mixes tcgen05 with another."""
        if self.error or not self.wanted:
            return self.error
        if self.wanted not in self.instructions:
            return f"has no {self.wanted}"
        if self.wanted == "tcgen05" and len(self.instructions) > 1:
            return f"mixes {' and '.join(self.instructions)}"
        return ""


def matrix_instructions(source: str) -> tuple[str, ...]:
    """Matrix instructions that CUDA source text uses; what it includes does not count."""
    body = "\n".join(line for line in source.splitlines() if not line.startswith("#include"))
    return tuple(name for name, pattern in _INSTRUCTIONS if re.search(pattern, body))
