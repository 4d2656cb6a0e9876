"""The import site of deep_ep: exchange of expert inputs between GPUs."""

from __future__ import annotations

from deepinfer.ops.cuda.optional_kernel import OptionalKernel


def _load() -> object:
    import deep_ep

    return deep_ep


DEEP_EP = OptionalKernel("deep_ep", "sgl-deep-ep", "Buffer", _load)
