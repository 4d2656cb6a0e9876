"""The backends that the op tests run on."""

from __future__ import annotations

from typing import cast

import pytest

from deepinfer._C import cpu
from deepinfer.ops import PrimitiveOps, reference
from deepinfer.ops.cpu.cpu_ops import cpu_ops as bind_cpu_ops


@pytest.fixture(scope="session")
def cpu_ops() -> PrimitiveOps:
    return bind_cpu_ops(cpu.Context(2))


@pytest.fixture(params=["reference", "cpu"])
def ops(request: pytest.FixtureRequest) -> PrimitiveOps:
    return cast(PrimitiveOps, reference if request.param == "reference" else request.getfixturevalue("cpu_ops"))
