"""The import site of deep_gemm: matrix products."""

from __future__ import annotations

from deepinfer.ops.cuda.optional_kernel import OptionalKernel


def _load() -> object:
    import deep_gemm

    return deep_gemm


DEEP_GEMM = OptionalKernel("deep_gemm", "sgl-deep-gemm", "fp8_gemm_nt", _load)
