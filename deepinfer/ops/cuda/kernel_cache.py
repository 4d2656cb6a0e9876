"""Where compiled kernels are kept between runs."""

from __future__ import annotations

import shutil
from pathlib import Path

from deepinfer.envs import set_default

DEFAULT_DIRECTORY = Path("~/.cache/deepinfer/kernels")


def use_kernel_cache(directory: str | None) -> Path:
    """Make tilelang and Triton keep their kernels in `directory`, quietly. Call it before the first kernel is made.

    They read their settings from the environment, so they are written there; one that is set already stays. tilelang
    takes the folder of the `nvcc` on the PATH for the CUDA toolkit, which is wrong where that is a wrapper script.

    Args:
        directory: made when the first kernel is stored; None: ``~/.cache/deepinfer/kernels``.
    """
    path = str(Path(directory or DEFAULT_DIRECTORY).expanduser())
    toolkit = cuda_toolkit()
    set_default("TILELANG_PRINT_ON_COMPILATION", "0")
    set_default("CUDA_HOME", None if toolkit is None else str(toolkit))
    set_default("TRITON_CACHE_DIR", f"{path}/triton")
    return Path(set_default("TILELANG_CACHE_DIR", path) or path)


def missing_compiler() -> str | None:
    """Why kernels cannot be compiled here and what would help; None when there is a compiler."""
    toolkit = cuda_toolkit()
    if toolkit is None:
        return "no CUDA toolkit: nvcc is not on the PATH; install one or set CUDA_HOME to its folder"
    if (toolkit / "bin" / "nvcc").is_file():
        return None
    on_path = shutil.which("nvcc")
    fix = (
        "install a toolkit and set CUDA_HOME to its folder" if on_path is None else f"unset CUDA_HOME to use {on_path}"
    )
    return f"CUDA_HOME = {str(toolkit)!r}: there is no bin/nvcc in it; {fix}"


def cuda_toolkit() -> Path | None:
    """Folder of the CUDA toolkit: CUDA_HOME, or where `nvcc` really is; None without one."""
    named = set_default("CUDA_HOME", None)
    if named:
        return Path(named)
    found = shutil.which("nvcc")
    candidates = [Path(found).resolve().parents[1]] if found else []
    candidates += sorted(Path("/usr/local").glob("cuda*"), reverse=True)
    return next((path for path in candidates if (path / "include" / "cuda.h").exists()), None)
