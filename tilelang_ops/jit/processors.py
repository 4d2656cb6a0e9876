"""How many multiprocessors a GPU has."""

import functools

import torch


@functools.cache
def num_processors(device: torch.device) -> int:
    """Multiprocessors of a CUDA device: as many blocks, or twice, has a kernel that goes through its work by itself."""
    return torch.cuda.get_device_properties(device).multi_processor_count
