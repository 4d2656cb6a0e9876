"""Compiles every kernel of a model ahead of time; needs the CUDA toolkit but no GPU."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

from deepinfer.ops.cuda.compiled_kernel import CompiledKernel, matrix_instructions
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.jit.registry import kernel_specs
from tilelang_ops.jit.triton_spec import TritonSpec


def compile_kernels(sizes: Sequence[ModelSizes], arches: Sequence[str], num_jobs: int) -> Iterator[CompiledKernel]:
    """Compile into the kernel cache (`use_kernel_cache` comes first), each kernel as it is finished.

    Args:
        sizes: models; a kernel that several share is compiled once.
        arches: e.g. ("sm_90a", "sm_100a").
        num_jobs: processes.
    """
    chosen: dict[str, KernelSpec | TritonSpec] = {}
    for model in sizes:
        for spec in kernel_specs(model):
            chosen.setdefault(f"{spec.name} {sorted(spec.statics.items())}", spec)
    work = [(spec, arch) for spec in chosen.values() for arch in arches if arch in spec.arches]
    # Forked workers would share the compiler's locks with this process.
    with ProcessPoolExecutor(num_jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(_compile, *zip(*work, strict=True)) if work else ()


def _compile(spec: KernelSpec | TritonSpec, arch: str) -> CompiledKernel:
    begin, source, error = time.perf_counter(), "", ""
    try:
        source = spec.source(arch)
    except Exception as failure:  # whatever the compiler raises is this kernel's result
        error = f"{type(failure).__name__}: {failure}"
    statics = ", ".join(f"{name}={value}" for name, value in spec.statics.items())
    seconds = time.perf_counter() - begin
    wanted = spec.instructions.get(arch, "")
    return CompiledKernel(spec.name, statics, arch, seconds, matrix_instructions(source), wanted, spec.note, error)
