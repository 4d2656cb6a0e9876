"""Choosing a backend."""

from __future__ import annotations

import pytest
import torch

from deepinfer._C import cpu
from deepinfer.config.numerics import Numerics
from deepinfer.errors import ConfigError, UnsupportedFeatureError
from deepinfer.ops import reference, select_backend
from deepinfer.ops.cuda.availability import cuda_unavailable


@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_auto_on_a_cpu_is_cpu_and_says_why(device: str):
    chosen = select_backend("auto", device, num_threads=2)
    assert chosen.name == "cpu" and chosen.ops is not reference
    assert chosen.context is not None and chosen.context.num_threads == 2
    assert "fastest" in chosen.reason and chosen.context.isa in chosen.reason
    assert set(chosen.rejected) == {"reference", "cuda"} and all(chosen.rejected.values())


def test_auto_is_the_reference_where_values_are_compared():
    chosen = select_backend("auto", "cpu", numerics=Numerics.FP32_QUANT)
    assert chosen.name == "reference" and "fp32-quant" in chosen.reason and "fp32-quant" in chosen.rejected["cpu"]
    assert select_backend("auto", "cpu", numerics=Numerics.FP32).name == "cpu"
    assert select_backend("cpu", "cpu", numerics=Numerics.FP32_QUANT).name == "cpu"


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_auto_on_a_gpu_without_kernels_is_reference_and_says_why(device: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    chosen = select_backend("auto", device)
    assert chosen.name == "reference" and chosen.ops is reference and chosen.context is None
    assert device in chosen.reason
    assert set(chosen.rejected) == {"cpu", "cuda"} and all(chosen.rejected.values())


@pytest.mark.parametrize("name", ["reference", "cpu"])
def test_backends_can_be_named(name: str):
    chosen = select_backend(name, "cpu")
    assert chosen.name == name and chosen.reason == "named explicitly" and name not in chosen.rejected


@pytest.mark.parametrize(("name", "device", "missing"), [("cpu", "cuda", "not a CPU"), ("cuda", "cpu", "not a GPU")])
def test_missing_backends_say_what_is_missing(name: str, device: str, missing: str):
    with pytest.raises(UnsupportedFeatureError, match=missing):
        select_backend(name, device)


@pytest.mark.parametrize(
    ("capability", "count", "device", "reason"),
    [
        ((8, 0), 1, "cuda", "capability 8.0"),
        ((9, 0), 1, "cuda:1", "sees 1 GPUs"),
        ((9, 0), 0, "auto", "sees 0 GPUs"),
        ((9, 0), 2, "cpu", "not a GPU"),
    ],
)
def test_why_cuda_cannot_run(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], count: int, device: str, reason: str
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda number: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda number: "a GPU")
    assert reason in (cuda_unavailable(device) or "")


def test_unknown_names():
    with pytest.raises(ConfigError, match="'tpu'"):
        select_backend("tpu", "cpu")
    with pytest.raises(ConfigError, match="cpu_isa = 'neon'.*expected auto, scalar"):
        select_backend("auto", "cpu", cpu_isa="neon")


def test_an_instruction_set_can_be_named():
    chosen = select_backend("cpu", "cpu", cpu_isa="scalar")
    assert chosen.context is not None and chosen.context.isa == "scalar"
    assert cpu.Context(1).isa in ("scalar", "avx2", "avx512", "avx512_bf16")
