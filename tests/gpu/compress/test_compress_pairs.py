"""Ratio-2 compression on a GPU, with the first token of a pair in the step or in the state."""

import pytest
import torch

from deepinfer.ops import reference
from tests.gpu.agreement import assert_bits, fresh_runs, repeated

pytest.importorskip("tilelang")


@pytest.mark.parametrize("dim", [128, 512, 96])
@pytest.mark.parametrize("pairs", [0, 1, 7, 2000])
def test_bits_of_the_reference(device, dim, pairs):
    from deepinfer.ops.cuda.compress_pairs import compress_pairs

    for generator in fresh_runs(device):
        new = 4 * torch.randn(2 * pairs + 1, 2, dim, generator=generator, device=device)
        state = 4 * torch.randn(5, 4, 2, dim, generator=generator, device=device)
        second = torch.arange(pairs, device=device) * 2 + 1
        carried = torch.randint(-20, 20, (pairs,), generator=generator, device=device).clamp(min=-1)
        if pairs:
            second[0], carried[0] = 0, 3
        inputs = (new, state, second, carried, torch.bfloat16)
        found = repeated(lambda inputs=inputs: compress_pairs(*inputs))
        want = reference.compress_pairs(*(x.cpu() for x in inputs[:4]), torch.bfloat16).to(device)
        assert_bits(found, want, f"seed {generator.initial_seed()}")
