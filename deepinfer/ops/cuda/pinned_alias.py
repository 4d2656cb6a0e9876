"""Pinned host memory as the GPU sees it."""

from __future__ import annotations

from typing import Any

import torch


class _HostBytes:
    """Offers a host tensor's address to torch as device memory; pinned memory has one address for both."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.__cuda_array_interface__: dict[str, Any] = {
            "shape": tuple(tensor.shape),
            "typestr": "|u1",
            "data": (tensor.data_ptr(), False),
            "version": 2,
        }


def pinned_alias(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A tensor on `device` over the bytes of `tensor`, nothing copied; a kernel reads them over the bus.

    Args:
        tensor: uint8, contiguous, in pinned memory; it must outlive the alias.
        device: of the kernels that will read it.
    """
    return torch.as_tensor(_HostBytes(tensor), device=device)
