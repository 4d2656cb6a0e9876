"""Native CPU kernels. Built from csrc/cpu."""

class Context:
    """Threads and kernels of one engine's CPU ops.

    Args:
        num_threads: threads in all, the caller's included, 1 .. 1024.
        isa: "auto" (the widest this machine can run), "scalar", "avx2" or "avx512". Results are equal on all of them.

    Raises ValueError for another value, or an instruction set that this machine cannot run.
    """

    def __init__(self, num_threads: int, isa: str = "auto") -> None: ...
    @property
    def num_threads(self) -> int: ...
    @property
    def isa(self) -> str: ...
