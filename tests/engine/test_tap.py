"""Recorded tensors: sorted by position, recomputed rows overwrite."""

import numpy as np
import pytest
import torch

from deepinfer.engine.tap import Tap


class Rows:
    """Stands for the worker's current rows."""

    def __init__(self) -> None:
        self.now = (np.zeros(0, np.int64), np.zeros(0, np.int64))

    def set(self, seq_ids: list[int], positions: list[int]) -> None:
        self.now = (np.array(seq_ids), np.array(positions))


@pytest.fixture
def rows() -> Rows:
    return Rows()


@pytest.fixture
def tap(rows: Rows) -> Tap:
    return Tap(lambda: rows.now, {1: "one", 2: "two"}.get)


def test_rows_are_split_by_request_and_sorted(rows: Rows, tap: Tap) -> None:
    rows.set([1, 1, 2], [0, 1, 5])
    tap.record("x", torch.tensor([[0.0], [1.0], [5.0]]), None)
    rows.set([2, 1], [6, 2])
    tap.record("x", torch.tensor([[6.0], [2.0]]), None)
    assert tap.names() == ["x"]
    assert tap["x"]["one"].tolist() == [[0.0], [1.0], [2.0]]
    assert tap.tensor("x", "two").tolist() == [[5.0], [6.0]]
    assert tap.positions("x", "two").tolist() == [5, 6]
    with pytest.raises(KeyError):
        tap["y"]


def test_recompute_overwrites(rows: Rows, tap: Tap) -> None:
    rows.set([1, 1, 1], [0, 1, 2])
    tap.record("x", torch.tensor([0, 1, 2]), None)
    rows.set([1, 1], [1, 3])
    tap.record("x", torch.tensor([10, 30]), None)
    assert tap.tensor("x", "one").tolist() == [0, 10, 2, 30]
    rows.set([1], [0])
    tap.record("x", torch.tensor([7]), None)
    assert tap.tensor("x", "one").tolist() == [7, 10, 2, 30]


def test_given_rows_and_unknown_sequences(rows: Rows, tap: Tap) -> None:
    rows.set([1, 2, 3], [0, 4, 9])
    source = torch.tensor([40, 90])
    tap.record("x", source, torch.tensor([1, 2]))
    source += 1  # recorded values are copies
    assert {name: value.tolist() for name, value in tap["x"].items()} == {"two": [40]}
