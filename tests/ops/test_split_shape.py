"""How products of some dozens of rows are cut: every column and output once, and within a multiprocessor's memory."""

import pytest

pytest.importorskip("tilelang")

from tilelang_ops.gemm.split_rows import MAX_ROWS, split_shape, takes_split

WEIGHTS = [
    (64, 128, 1),
    (128, 256, 1),
    (256, 256, 4),
    (512, 5120, 1),
    (1280, 5120, 1),
    (4096, 1280, 1),
    (5120, 8192, 1),
]
WEIGHTS += [
    (5120, 15360, 1),
    (8192, 4096, 8),
    (25600, 6144, 1),
    (32768, 1280, 1),
    (129280, 256, 1),
    (64 * 7, 128 * 13, 7),
]


@pytest.mark.parametrize("weight_bytes", [1, 2])
@pytest.mark.parametrize(("num_out", "dim", "num_groups"), WEIGHTS)
def test_all_of_a_weight_once(num_out: int, dim: int, num_groups: int, weight_bytes: int) -> None:
    assert takes_split(9, num_out, dim, num_groups, False) and takes_split(MAX_ROWS, num_out, dim, num_groups, False)
    for rows in (16, 32, 64):
        shape, splits = split_shape(num_out, dim, num_groups, rows, weight_bytes)
        assert shape.tile_rows == rows and num_out // num_groups % shape.tile_out == 0
        assert (splits - 1) * shape.steps * 128 < dim <= splits * shape.steps * 128  # none is empty
        stage = 128 * (shape.tile_out * weight_bytes + 2 * rows)
        assert shape.stages >= 2 and shape.stages * stage <= 200 << 10


def test_what_it_does_not_take() -> None:
    assert not takes_split(65, 512, 5120, 1, False) and not takes_split(0, 512, 5120, 1, False)
    assert not takes_split(64, 512, 5120, 1, True)  # one form for all numbers of rows
    assert not takes_split(64, 96, 5120, 1, False) and not takes_split(64, 512, 160, 1, False)
    assert not takes_split(64, 512, 256, 16, False)  # 32 outputs a group
