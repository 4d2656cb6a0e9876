"""The import site of flash_mla: sparse attention."""

from __future__ import annotations

from deepinfer.ops.cuda.optional_kernel import OptionalKernel


def _load() -> object:
    import flash_mla

    return flash_mla


FLASH_MLA = OptionalKernel("flash_mla", "sgl-flash-mla", "flash_mla_sparse_fwd", _load)
