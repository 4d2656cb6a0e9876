"""Options of the caches: how much memory, in which format, in blocks of which size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deepinfer.config.field_error import field_error
from deepinfer.config.numerics import Numerics
from deepinfer.config.size_limits import check_range

if TYPE_CHECKING:
    from deepinfer.config.model_config import DeepSeekV41Config

KV_CACHE_DTYPES = ("auto", "fp4", "fp8", "float32")
_CUDA_BLOCK_SIZES = (64, 128)
_MAX_BYTES = 2**50
_MAX_BLOCK_SIZE = 2**16


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """Cache group of EngineConfig.

    Attributes:
        gpu_memory_utilization: share of a GPU's memory the engine may use in all, in (0, 1]; no meaning on a CPU.
        kv_cache_bytes: bytes of the paged caches; None: sized from the memory (worker/memory.py).
        kv_cache_dtype: "auto" (fp4, or float32 in fp32 numerics), "fp4", "fp8" or "float32".
        block_size: original tokens per block.
    """

    gpu_memory_utilization: float = 0.9
    kv_cache_bytes: int | None = None
    kv_cache_dtype: str = "auto"
    block_size: int = 128

    def __post_init__(self) -> None:
        share = self.gpu_memory_utilization
        if type(share) not in (int, float) or not 0 < share <= 1:
            raise field_error("gpu_memory_utilization", share, "a number greater than 0 and at most 1")
        check_range("kv_cache_bytes", self.kv_cache_bytes, 1, _MAX_BYTES, optional=True)
        if self.kv_cache_dtype not in KV_CACHE_DTYPES:
            raise field_error("kv_cache_dtype", self.kv_cache_dtype, f"one of {', '.join(KV_CACHE_DTYPES)}")
        check_range("block_size", self.block_size, 2, _MAX_BLOCK_SIZE)


def resolve_kv_cache_dtype(kv_cache_dtype: str, numerics: Numerics) -> str:
    """The definite type behind "auto". Raises ConfigError for a packed type in numerics that quantize nothing."""
    if kv_cache_dtype not in KV_CACHE_DTYPES:
        raise field_error("kv_cache_dtype", kv_cache_dtype, f"one of {', '.join(KV_CACHE_DTYPES)}")
    if kv_cache_dtype == "auto":
        return "fp4" if numerics.quantize else "float32"
    if not numerics.quantize and kv_cache_dtype != "float32":
        expectation = f"float32 or auto with numerics {numerics.value!r}, which quantizes nothing"
        raise field_error("kv_cache_dtype", kv_cache_dtype, expectation)
    return kv_cache_dtype


def check_block_size(block_size: int, model: DeepSeekV41Config, backend: str = "reference") -> None:
    """Raises ConfigError unless the blocks of every layer hold whole groups, and the backend has kernels for them."""
    unit = max(1, model.max_ratio)
    if type(block_size) is not int or block_size < 2 or block_size % unit:
        expectation = f"a multiple of {unit} (the model's largest compression ratio), at least 2"
        raise field_error("block_size", block_size, expectation)
    if backend == "cuda" and block_size not in _CUDA_BLOCK_SIZES:
        raise field_error("block_size", block_size, "64 or 128 on the cuda backend")
