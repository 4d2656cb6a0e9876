"""Rows by index on a GPU."""

import pytest
import torch

from tests.gpu.agreement import assert_bits, fresh_runs, repeated

pytest.importorskip("tilelang")


@pytest.mark.parametrize("kept", [0, 1, 77])
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((4, 5120), torch.bfloat16),
        ((4, 256), torch.bfloat16),
        ((4,), torch.float32),
        ((3,), torch.float32),
        ((5120,), torch.bfloat16),
        ((2,), torch.int64),
        ((528,), torch.uint8),
        ((66,), torch.uint8),
        ((3,), torch.bfloat16),
    ],
)
def test_rows_are_copies(device, shape, dtype, kept):
    from deepinfer.ops.cuda.gather_rows import gather_rows

    for generator in fresh_runs(device):
        x = (100 * torch.rand(300, *shape, generator=generator, device=device)).to(dtype)
        index = torch.randint(0, 300, (kept,), generator=generator, device=device)
        assert_bits(repeated(lambda x=x, i=index: gather_rows(x, i)), x[index], f"seed {generator.initial_seed()}")
