"""Every backend has every op of the contract, with the same signature."""

from __future__ import annotations

import inspect

import pytest

from deepinfer.ops import Ops, PrimitiveOps, reference

OPS = sorted(name for name in vars(Ops) | vars(PrimitiveOps) if not name.startswith("_"))


@pytest.mark.parametrize("name", OPS)
def test_signature(ops: Ops, name: str):
    function = getattr(ops, name, None)
    assert function is not None, f"{ops} has no {name}"
    contract = inspect.signature(getattr(PrimitiveOps, name))
    wanted = contract.replace(parameters=[p for p in contract.parameters.values() if p.name != "self"])
    assert inspect.signature(function) == wanted


@pytest.mark.parametrize("name", OPS)
def test_docstrings(name: str):
    defined = getattr(reference, name)
    for function in (getattr(PrimitiveOps, name), getattr(defined, "func", defined)):  # a composed op is bound
        assert inspect.getdoc(function), f"{function.__qualname__} has no docstring"
