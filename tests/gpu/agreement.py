"""Fresh random inputs for GPU tests, and comparisons whose failures say where and by how much."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tests.gpu.poison import poisoned_memory

RUNS = 3  # with fresh inputs
REPEATS = 3  # of the same inputs
_COUNTER = itertools.count(time.time_ns() % (1 << 40))


def fresh_runs(device: torch.device) -> Iterator[torch.Generator]:
    """Seeded generators, other seeds in every run of the tests; `initial_seed()` is in the messages below."""
    for _ in range(RUNS):
        yield torch.Generator(device).manual_seed(next(_COUNTER))


def repeated(call: Callable[[], Any]) -> Any:
    """The result of a kernel on poisoned memory; it has to be the same bits every time."""
    with poisoned_memory():
        first = call()
        for repeat in range(1, REPEATS):
            for number, (now, before) in enumerate(zip(_tensors(call()), _tensors(first), strict=True)):
                assert_bits(now, before, f"result {number}, repeat {repeat} against the first")
    return first


def assert_bits(found: torch.Tensor, want: torch.Tensor, label: str) -> None:
    """Equal bits; any NaN equals any other."""
    _assert_form(found, want, label)
    same = _bits(found) == _bits(want)
    if found.is_floating_point() and found.element_size() > 1:
        same |= found.isnan() & want.isnan()
    if not bool(same.all()):
        _fail(found, want, ~same, label)


def assert_near(found: torch.Tensor, want: torch.Tensor, limit: float, label: str) -> None:
    """Norm of the difference over the norm of `want` at most `limit`, ten times that in every row; the same elements
    are finite."""
    _assert_form(found, want, label)
    finite = want.isfinite()
    if not torch.equal(found.isfinite(), finite):
        _fail(found, want, found.isfinite() != finite, f"{label}: not finite in other places")
    a, b = torch.where(finite, found, 0).double(), torch.where(finite, want, 0).double()
    error = float((a - b).norm() / b.norm().clamp(min=1e-30)) if found.numel() else 0.0
    if not error <= limit:
        _fail(found, want, (a - b).abs() > limit * b.abs().amax(), f"{label}: relative error {error:.3e} > {limit:.1e}")
    if found.dim() > 1 and found.numel():
        rows = (a - b).flatten(1).norm(dim=1) / b.flatten(1).norm(dim=1).clamp(min=1e-30)
        worst = float(rows.amax())
        if not worst <= 10 * limit:
            far = (rows > 10 * limit).view(-1, *[1] * (found.dim() - 1)).expand_as(found)
            _fail(found, want, far, f"{label}: relative error of a row {worst:.3e} > {10 * limit:.1e}")


def _assert_form(found: torch.Tensor, want: torch.Tensor, label: str) -> None:
    assert found.shape == want.shape, f"{label}: shape {tuple(found.shape)}, expected {tuple(want.shape)}"
    assert found.dtype == want.dtype, f"{label}: {found.dtype}, expected {want.dtype}"


def _fail(found: torch.Tensor, want: torch.Tensor, wrong: torch.Tensor, label: str) -> None:
    places = wrong.nonzero()
    place = tuple(places[0].tolist()) if len(places) else ()
    example = f"first at {place}: {found[place].item()}, expected {want[place].item()}" if place else "spread out"
    raise AssertionError(f"{label}, shape {tuple(found.shape)}: {len(places)} elements wrong, {example}")


def _bits(x: torch.Tensor) -> torch.Tensor:
    sizes = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return x.contiguous().view(sizes[x.element_size()]) if x.is_floating_point() else x


def _tensors(result: Any) -> tuple[torch.Tensor, ...]:
    return (result,) if isinstance(result, torch.Tensor) else tuple(result)
