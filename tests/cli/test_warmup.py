"""``deepinfer warmup``: what it says before and behind the compiler's work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from deepinfer.cli.main import app
from deepinfer.ops.cuda.compiled_kernel import CompiledKernel
from deepinfer.ops.cuda.kernel_cache import missing_compiler


@pytest.fixture
def toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like a CUDA toolkit, and an environment that knows no other."""
    compiler = tmp_path / "toolkit" / "bin" / "nvcc"
    compiler.parent.mkdir(parents=True)
    compiler.touch(mode=0o755)
    for name in ("TILELANG_PRINT_ON_COMPILATION", "TRITON_CACHE_DIR", "TILELANG_CACHE_DIR"):
        monkeypatch.setenv(name, "")  # restored behind the test
        monkeypatch.delenv(name)
    monkeypatch.setenv("DEEPINFER_JIT_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setenv("CUDA_HOME", str(compiler.parents[1]))
    monkeypatch.setenv("PATH", "")
    return compiler.parents[1]


def warmup(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["warmup", *arguments], catch_exceptions=False)


def test_a_wrong_toolkit_is_told_once(toolkit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_compiler() is None
    monkeypatch.setenv("CUDA_HOME", "/no/toolkit")
    result = warmup()
    assert result.exit_code == 2 and "CUDA_HOME = '/no/toolkit'" in result.output and "install" in result.output
    monkeypatch.setenv("PATH", str(toolkit / "bin"))
    assert f"unset CUDA_HOME to use {toolkit}" in str(missing_compiler())


@pytest.mark.parametrize("option", [[], ["--json"], ["--check"]])
def test_the_sum_and_the_place(toolkit: Path, option: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tilelang")
    pytest.importorskip("triton")

    def compiled(*_args: object) -> Iterator[CompiledKernel]:
        yield CompiledKernel("norm.x", "", "sm_90a", 0.5, (), "", "", "")
        yield CompiledKernel("gemm.x", "", "sm_90a", 0.5, (), "wgmma", "", "")

    monkeypatch.setattr("deepinfer.ops.cuda.compile_kernels.compile_kernels", compiled)
    result = warmup(*option)
    assert result.exit_code == (1 if option == ["--check"] else 0)
    assert len(result.stdout.splitlines()) == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("2 kernels") and "1 of them" in line and line.endswith(str(toolkit.parent / "kernels"))


def test_places_of_ranks_are_compiled_too(toolkit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bundled model has 16 experts, and 8 in a draft stage."""
    pytest.importorskip("tilelang")
    found = []

    def noted(sizes: list[Any], *_args: object) -> Iterator[CompiledKernel]:
        found.extend(sizes)
        yield from ()

    monkeypatch.setattr("deepinfer.ops.cuda.compile_kernels.compile_kernels", noted)
    assert warmup("--expert-parallel", "2,3", "--redundant-experts", "1").exit_code == 0
    assert found[0].expert_places == (9, 5, 6, 3)
    assert warmup("--expert-parallel", "2,x").exit_code == 2
