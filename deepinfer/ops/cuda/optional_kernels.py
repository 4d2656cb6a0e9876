"""All packages of kernels by others that the cuda backend knows of."""

from __future__ import annotations

from typing import Final

from deepinfer.ops.cuda.deep_ep import DEEP_EP
from deepinfer.ops.cuda.deep_gemm import DEEP_GEMM
from deepinfer.ops.cuda.flash_mla import FLASH_MLA
from deepinfer.ops.cuda.optional_kernel import OptionalKernel

OPTIONAL_KERNELS: Final[tuple[OptionalKernel, ...]] = (DEEP_GEMM, FLASH_MLA, DEEP_EP)
