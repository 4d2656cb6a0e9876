"""Checks that a row's bits do not depend on its neighbours, its place, the number of rows or the threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch

THREADS = (1, 2, 3, 4, 8)
RowOp = Callable[..., torch.Tensor | tuple[torch.Tensor, ...]]


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def assert_rows_independent(op: RowOp, *row_inputs: torch.Tensor, sizes: Sequence[int] = (1, 2, 15, 16, 17)) -> None:
    """Run `op` on all rows, on slices of several sizes and places, and on a permutation.

    With more than one thread only single rows, all rows and the permutation are run.

    Args:
        op: takes tensors with the same leading dim (rows) and gives such tensors.
        row_inputs: all rows.
        sizes: slice lengths (those above the number of rows are left out).
    """
    num_rows = row_inputs[0].shape[0]
    with threads(1):
        whole = _tuple(op(*row_inputs))
    for count in THREADS:
        with threads(count):
            for begin, end in _slices(num_rows, sizes if count == 1 else (1,)):
                part = _tuple(op(*(x[begin:end] for x in row_inputs)))
                _assert_same(part, tuple(x[begin:end] for x in whole), f"rows {begin}:{end}, {count} threads")
            order = torch.randperm(num_rows, generator=torch.Generator().manual_seed(0))
            moved = _tuple(op(*(x[order] for x in row_inputs)))
            _assert_same(moved, tuple(x[order] for x in whole), f"permuted, {count} threads")
    nothing = _tuple(op(*(x[:0] for x in row_inputs)))
    assert all(x.shape[0] == 0 for x in nothing)


def _slices(num_rows: int, sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    for size in (*sizes, num_rows):
        if size <= num_rows:
            for begin in sorted({0, (num_rows - size) // 2, num_rows - size}):
                yield begin, begin + size


def _tuple(result: torch.Tensor | tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return (result,) if isinstance(result, torch.Tensor) else tuple(result)


def _assert_same(got: tuple[torch.Tensor, ...], want: tuple[torch.Tensor, ...], what: str) -> None:
    for x, y in zip(got, want, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape, what
        same = torch.equal(_bits(x), _bits(y))
        assert same, f"{what}: {int((_bits(x) != _bits(y)).sum())} of {x.numel()} elements differ"


def _bits(x: torch.Tensor) -> torch.Tensor:
    x = x.clone(memory_format=torch.contiguous_format)
    return x.view(torch.uint8) if x.dtype != torch.bool else x
