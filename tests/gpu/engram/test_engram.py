"""Engram on a GPU: hash, lookup from all places a table may be in, gate."""

import pytest
import torch

from deepinfer.core.ngram_hash import NgramHash
from deepinfer.ops import reference
from tests.gpu.agreement import assert_bits, assert_near, fresh_runs, repeated

pytest.importorskip("tilelang")


@pytest.mark.parametrize(("size", "heads"), [(2, 1), (3, 2), (4, 8)])
@pytest.mark.parametrize("tokens", [0, 1, 333])
def test_row_numbers(device, size, heads, tokens):
    from deepinfer.ops.cuda.ngram_rows import ngram_rows

    for generator in fresh_runs(device):

        def draw(low, high, *shape, generator=generator):
            return torch.randint(low, high, shape, generator=generator, device=device)

        hashes = NgramHash(
            draw(0, 2**49, size) * 2 + 1, draw(1000, 2**40, size - 1, heads), draw(0, 2**40, size - 1, heads), 0
        )
        ngram = draw(0, 2**14, tokens, size)
        ngram[::7, 0] = -1
        ngram[::5, 1] = -(2**55)  # products and their xor wrap or are negative
        found = repeated(lambda ngram=ngram, hashes=hashes: ngram_rows(ngram, hashes))
        assert_bits(
            found, reference.ngram_rows(ngram.cpu(), hashes.to("cpu")).to(device), f"seed {generator.initial_seed()}"
        )


@pytest.mark.parametrize("place", ["device", "pinned", "pageable"])
@pytest.mark.parametrize("dim", [32, 256, 20])
@pytest.mark.parametrize("tokens", [0, 1, 301])
def test_lookup(device, place, dim, tokens):
    from deepinfer.ops.cuda.engram_lookup import engram_lookup

    for generator in fresh_runs(device):
        codes = torch.randint(0, 256, (5000, dim), generator=generator, device=device, dtype=torch.uint8)
        scales = torch.randint(0, 256, (5000, -(-dim // 32)), generator=generator, device=device, dtype=torch.uint8)
        rows = torch.randint(-1, 5000, (tokens, 6), generator=generator, device=device)
        want = reference.engram_lookup(rows.cpu(), codes.cpu(), scales.cpu()).to(device)
        if place != "device":
            codes, scales = codes.cpu(), scales.cpu()
        if place == "pinned":
            codes, scales = codes.pin_memory(), scales.pin_memory()
        table = (codes.view(torch.float8_e4m3fn), scales)
        found = repeated(lambda rows=rows, table=table: engram_lookup(rows, *table))
        assert_bits(found, want, f"seed {generator.initial_seed()}")


def test_pinned_memory_is_not_copied(device):
    from deepinfer.ops.cuda.pinned_alias import pinned_alias

    host = torch.zeros(64, dtype=torch.uint8).pin_memory()
    alias = pinned_alias(host, device)
    host[5] = 77
    assert alias.device == device and alias.data_ptr() == host.data_ptr()
    assert int(alias[5]) == 77


@pytest.mark.parametrize(("size", "dim", "rows"), [(4, 256, 0), (4, 256, 1), (4, 5120, 65), (2, 1120, 9)])
def test_gate(device, size, dim, rows):
    from deepinfer.ops.cuda.engram_gate import engram_gate

    for generator in fresh_runs(device):

        def normal(*shape, generator=generator):
            return torch.randn(shape, generator=generator, device=device).bfloat16()

        streams, projected = normal(rows, size, dim), normal(rows, (size + 1) * dim)
        keys, value = projected[:, : size * dim].view(rows, size, dim), projected[:, size * dim :]
        inputs = (streams, keys, value, normal(size, dim), normal(size, dim))
        found = repeated(lambda inputs=inputs: engram_gate(*inputs, eps=1e-6))
        want = reference.engram_gate(*inputs, eps=1e-6)
        assert_near(found, want, 1e-3, f"seed {generator.initial_seed()}")
