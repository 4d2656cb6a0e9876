"""Memory that captured CUDA graphs hold."""

from __future__ import annotations

import torch

from deepinfer.worker.captured_calls import CapturedCalls


def pool_size(calls: CapturedCalls) -> int:
    """Bytes of device memory that the pool of all graphs holds."""
    segments = torch.cuda.memory_snapshot()
    return sum(segment["total_size"] for segment in segments if tuple(segment["segment_pool_id"]) == tuple(calls.pool))
