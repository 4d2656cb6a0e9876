"""Every backend module has every op of the contract, with the same signature."""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest

from deepinfer.ops import Ops, reference

BACKENDS: list[ModuleType] = [reference]
OPS = sorted(name for name in vars(Ops) if not name.startswith("_"))


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda module: module.__name__)
@pytest.mark.parametrize("name", OPS)
def test_signature(backend: ModuleType, name: str):
    function = getattr(backend, name, None)
    assert function is not None, f"{backend.__name__} has no {name}"
    contract = inspect.signature(getattr(Ops, name))
    wanted = contract.replace(parameters=[p for p in contract.parameters.values() if p.name != "self"])
    assert inspect.signature(function) == wanted


@pytest.mark.parametrize("name", OPS)
def test_docstrings(name: str):
    for function in (getattr(Ops, name), getattr(reference, name)):
        assert inspect.getdoc(function), f"{function.__qualname__} has no docstring"
