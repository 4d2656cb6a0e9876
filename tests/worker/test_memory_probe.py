"""Which memory sizes the caches: the GPU's own, or the host's."""

import pytest
import torch

from deepinfer.worker.device import memory_probe
from deepinfer.worker.gpu_memory import GpuMemoryProbe
from deepinfer.worker.host_memory import HostMemoryProbe


def test_the_device_decides() -> None:
    assert isinstance(memory_probe(torch.device("cpu")), HostMemoryProbe)
    assert isinstance(memory_probe(torch.device("cuda", 1)), GpuMemoryProbe)


def test_figures_are_those_of_the_device() -> None:
    figures = {torch.device("cuda", 0): (10, 80), torch.device("cuda", 1): (20, 40)}
    probe = GpuMemoryProbe(torch.device("cuda", 1), figures.__getitem__)
    assert (probe.free_bytes(), probe.total_bytes()) == (20, 40)


@pytest.mark.gpu
def test_a_real_gpu() -> None:
    probe = memory_probe(torch.device("cuda", 0))
    assert 0 < probe.free_bytes() <= probe.total_bytes()
