"""Which models decode with ops that never wait for the GPU."""

from __future__ import annotations

from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.config.numerics import Numerics
from tilelang_ops.attention.sparse_attention import has_kernel
from tilelang_ops.hyper_connection.hc_advance import MAX_STREAMS


def why_not_static(config: DeepSeekV41Config, numerics: Numerics, kv_cache_dtype: str, arch: str) -> str | None:
    """Why an op of a decode step takes the reference's form, parts of which wait for the device or have shapes that
    depend on values; None when none does.

    Args:
        kv_cache_dtype: "fp4", "fp8" or "float32".
        arch: "sm_90a" or "sm_100a".
    """
    if numerics is not Numerics.OFFICIAL:
        return f"numerics = {numerics.value!r} has no kernels"
    if kv_cache_dtype == "float32":
        return "kv_cache_dtype = 'float32' has no kernels"
    if not has_kernel(config.head_dim, arch):
        return f"there is no attention kernel for head_dim = {config.head_dim}"
    if config.hc_mult > MAX_STREAMS:
        return f"there are no kernels for hc_mult = {config.hc_mult}, which is more than {MAX_STREAMS}"
    names = ("hidden_size", "head_dim", "index_head_dim", "q_lora_rank", "moe_intermediate_size")
    for name in names:
        if getattr(config, name) % 32:
            return f"there are no kernels for {name} = {getattr(config, name)}, which 32 does not divide"
    return None
