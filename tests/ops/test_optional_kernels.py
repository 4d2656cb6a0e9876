"""Packages of kernels by others: found, judged by what they offer, and never needed."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

from deepinfer.ops.cuda.optional_kernel import OptionalKernel
from deepinfer.ops.cuda.optional_kernels import OPTIONAL_KERNELS
from tests.cli.test_main import invoke

KERNELS = pytest.mark.parametrize("kernel", OPTIONAL_KERNELS, ids=lambda kernel: kernel.name)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Installs a module of a name and source text for one test."""

    def install(name: str, source: str) -> None:
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()

    yield install
    for kernel in OPTIONAL_KERNELS:
        if getattr(sys.modules.get(kernel.name), "__file__", "").startswith(str(tmp_path)):
            del sys.modules[kernel.name]


@KERNELS
def test_states(kernel: OptionalKernel, installed):
    installed(kernel.name, f"def {kernel.symbol}(): ...")
    assert kernel.why_unused() == "loadable, not used: no measurement shows a gain yet"
    installed(kernel.name, "__version__ = '0.0.1'")
    assert f"without {kernel.symbol}" in kernel.why_unused() and kernel.package in kernel.why_unused()
    installed(kernel.name, "raise OSError('undefined symbol: x\\nmore')")
    assert kernel.why_unused().startswith("fails to load with torch")
    assert kernel.why_unused().endswith("OSError: undefined symbol: x")


@KERNELS
def test_described_once(kernel: OptionalKernel):
    root = Path(__file__).parents[2]
    assert f"`{kernel.package}==" in (root / "vendor" / "README.md").read_text(encoding="utf-8")
    sites = [
        path for path in (root / "deepinfer").rglob("*.py") if f"import {kernel.name}\n" in path.read_text("utf-8")
    ]
    assert [path.name for path in sites] == [f"{kernel.name}.py"]


def test_env_says_why(installed, monkeypatch: pytest.MonkeyPatch):
    installed("deep_gemm", "")
    find = importlib.util.find_spec
    absent = ("flash_mla", "deep_ep")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in absent else find(name))
    report = json.loads(invoke("env", "--json"))["optional_kernels"]
    assert set(report) == {"deep_gemm", "flash_mla", "deep_ep"}
    assert "placeholder" in report["deep_gemm"] and "pip install sgl-flash-mla" in report["flash_mla"]
    assert "deep_ep is not used: not installed" in invoke("env")
