"""The check of ahead-of-time compilation: which matrix instruction a kernel uses."""

from __future__ import annotations

import pytest

from deepinfer.ops.cuda.compiled_kernel import CompiledKernel, matrix_instructions


def test_includes_are_no_instructions():
    source = "#include <tl_templates/cuda/instruction/wgmma.h>\ntl::tcgen05mma_ss<...>(a, b);\n"
    assert matrix_instructions(source) == ("tcgen05",)
    assert matrix_instructions("tl::mma_sync<...>(c, a, b);\ntl::wgmma_ss(...);") == ("wgmma", "mma.sync")
    assert matrix_instructions("y[i] = x[i];") == ()


@pytest.mark.parametrize(
    ("found", "wanted", "error", "fault"),
    [
        ((), "", "", ""),
        (("wgmma",), "wgmma", "", ""),
        (("mma.sync",), "wgmma", "", "has no wgmma"),
        (("tcgen05", "mma.sync"), "tcgen05", "", "mixes tcgen05 and mma.sync"),
        ((), "", "no such layout", "no such layout"),
    ],
)
def test_fault(found: tuple[str, ...], wanted: str, error: str, fault: str):
    assert CompiledKernel("gemm.x", "", "sm_100a", 0.0, found, wanted, "", error).fault == fault
