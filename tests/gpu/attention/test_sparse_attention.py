"""Sparse attention kernels against the reference op on the same stored bytes."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch

from deepinfer.core.cache_spec import KVRounding, VectorFormat
from deepinfer.core.cache_tensors import VectorCache
from deepinfer.core.paged_entries import PagedEntries
from deepinfer.ops import reference
from tests.gpu.poison import poisoned_memory

pytest.importorskip("tilelang")

from deepinfer.ops.cuda.sparse_attention import sparse_attention
from tilelang_ops.attention.sparse_attention_sm90 import best_splits
from tilelang_ops.jit.processors import num_processors

LIMIT = 1.2e-3  # relative: float16 softmax weights (SM90 form) are off by 2e-4, and flip so many of bf16's roundings
RUNS = 3
FLASH, BUNDLED = (64, 512), (8, 128)
FP4, FP8 = KVRounding.FP4_GROUP16, KVRounding.FP8_GROUP32


@dataclass
class Case:
    """Inputs of one call, everything that no row may read being 0xFF, which decodes to NaN."""

    seed: int
    q: torch.Tensor
    window: torch.Tensor
    window_index: torch.Tensor
    entries: PagedEntries | None
    picks: torch.Tensor | None
    sink: torch.Tensor

    @property
    def options(self) -> dict[str, Any]:
        dim = self.q.shape[2]
        return {
            "window_format": VectorFormat(dim, FP8, packed=True),
            "scale": dim**-0.5,
            "out_dtype": torch.bfloat16,
        }

    def rows(self, rows: slice) -> Case:
        """The same for some of the rows."""
        entries = self.entries
        if entries is not None:
            entries = PagedEntries(entries.cache, entries.block_ids, entries.first_block[rows])
        picks = None if self.picks is None else self.picks[rows]
        return Case(self.seed, self.q[rows], self.window, self.window_index[rows], entries, picks, self.sink)

    def run(self, op: Any) -> torch.Tensor:
        args = (self.q, self.window, self.window_index, self.entries, self.picks, self.sink)
        return op(*args, **self.options)


def kernel(case: Case, batch_invariant: bool = False) -> torch.Tensor:
    with poisoned_memory():
        return case.run(partial(sparse_attention, batch_invariant))


def check(case: Case, batch_invariant: bool = False) -> torch.Tensor:
    """Asserts that the kernel is within LIMIT of the reference, over all and row by row, and the same in every run."""
    out = kernel(case, batch_invariant)
    want = case.run(reference.sparse_attention).double()
    difference = out.double() - want
    error = float(difference.norm() / want.norm().clamp(min=1e-30))
    rows = difference.flatten(1).norm(dim=1) / want.flatten(1).norm(dim=1).clamp(min=1e-30)
    worst = int(torch.nan_to_num(rows, nan=torch.inf).argmax())
    where = f"seed {case.seed} shape {tuple(out.shape)}: {error:.2e}, worst row {worst}: {float(rows[worst]):.2e}"
    assert error <= LIMIT and float(rows[worst]) <= 3 * LIMIT, where
    for _ in range(RUNS - 1):
        again = kernel(case, batch_invariant)
        assert torch.equal(again, out), f"{where}: runs differ in {int((again != out).sum())} elements"
    return out


def make_case(
    device: torch.device,
    num_rows: int,
    sizes: tuple[int, int],
    *,
    width: int = 128,
    num_picks: int = 512,
    rounding: KVRounding = FP4,
    absent: float = 0.1,
    size: int = 64,
) -> Case:
    """Rows of three sequences over a shared workspace, in blocks of `size` entries; a share of places is absent."""
    num_heads, dim = sizes
    seed = secrets.randbits(31)
    generator = torch.Generator(device).manual_seed(seed)
    normal = partial(torch.randn, generator=generator, device=device)

    def choose(bound: int, shape: tuple[int, ...]) -> torch.Tensor:
        return torch.randint(bound, shape, generator=generator, device=device)

    def drop(places: torch.Tensor) -> torch.Tensor:
        kept = torch.rand(places.shape, generator=generator, device=device) >= absent
        return torch.where(kept, places, -1)

    vectors = num_rows + width + 5
    window_format, entry_format = VectorFormat(dim, FP8, packed=True), VectorFormat(dim, rounding, packed=True)
    window = reference.encode_vectors(normal(vectors, dim), window_format)
    index = torch.arange(num_rows, device=device)[:, None] + torch.arange(width, device=device)
    window_index = drop(index)
    case = Case(
        seed, 1.5 * normal(num_rows, num_heads, dim).bfloat16(), window, window_index, None, None, normal(num_heads)
    )
    window[_unread(vectors, window_index)] = 0xFF
    if num_picks == 0:
        return case
    blocks = -(-3 * num_picks // size)
    data = reference.encode_vectors(normal(3 * blocks, size, dim), entry_format)
    block_ids = torch.randperm(3 * blocks, generator=generator, device=device)
    first_block = blocks * choose(3, (num_rows,))
    picks = torch.rand(num_rows, 3 * num_picks, generator=generator, device=device).argsort(1)[:, :num_picks]
    case.picks = drop(picks.sort(1).values)
    case.entries = PagedEntries(VectorCache(data, entry_format), block_ids, first_block)
    entry = case.picks.clamp(min=0)
    flat = block_ids[first_block[:, None] + entry // size] * size + entry % size
    data.view(3 * blocks * size, -1)[_unread(3 * blocks * size, torch.where(case.picks >= 0, flat, -1))] = 0xFF
    return case


def _unread(count: int, places: torch.Tensor) -> torch.Tensor:
    """bool [count]: places that are not listed."""
    unread = torch.ones(count, dtype=torch.bool, device=places.device)
    unread[places[places >= 0]] = False
    return unread


@pytest.mark.parametrize("batch_invariant", [False, True])
@pytest.mark.parametrize("rounding", [FP4, FP8])
@pytest.mark.parametrize("sizes", [FLASH, BUNDLED])
@pytest.mark.parametrize("num_rows", [1, 3, 5, 13, 14, 29, 33, 66, 77, 133])
def test_window_and_entries(device, num_rows, sizes, rounding, batch_invariant):
    check(make_case(device, num_rows, sizes, rounding=rounding), batch_invariant)


@pytest.mark.parametrize("sizes", [FLASH, BUNDLED])
@pytest.mark.parametrize(("width", "num_picks"), [(1, 1), (64, 32), (65, 63), (128, 65), (133, 500), (7, 0)])
def test_odd_numbers_of_keys(device, sizes, width, num_picks):
    for num_rows in (2, 20):
        check(make_case(device, num_rows, sizes, width=width, num_picks=num_picks), batch_invariant=num_rows > 2)


@pytest.mark.parametrize("rounding", [FP4, FP8])
@pytest.mark.parametrize("size", [1, 48, 128])
def test_blocks_of_other_sizes(device, size, rounding):
    for num_rows in (2, 20):
        check(make_case(device, num_rows, FLASH, num_picks=100, rounding=rounding, size=size))


@pytest.mark.parametrize("sizes", [FLASH, BUNDLED])
@pytest.mark.parametrize(("num_rows", "width"), [(1, 128), (5, 133), (13, 500), (20, 300), (33, 128), (320, 128)])
def test_window_alone(device, sizes, num_rows, width):
    check(make_case(device, num_rows, sizes, width=width, num_picks=0))


@pytest.mark.parametrize("sizes", [FLASH, BUNDLED])
def test_no_rows(device, sizes):
    case = make_case(device, 1, sizes, num_picks=32).rows(slice(0, 0))
    assert kernel(case).shape == (0, *sizes)


@pytest.mark.parametrize("sizes", [FLASH, BUNDLED])
@pytest.mark.parametrize("batch_invariant", [False, True])
def test_a_row_without_keys_is_zero(device, sizes, batch_invariant):
    case = make_case(device, 4, sizes, num_picks=70)
    case.window_index[2], case.picks[2] = -1, -1
    out = check(case, batch_invariant)
    assert torch.equal(out[2], torch.zeros_like(out[2]))


@pytest.mark.parametrize("sizes", [FLASH, BUNDLED])
def test_sink_above_and_far_below_the_logits(device, sizes):
    for level in (40.0, -200.0):
        case = make_case(device, 3, sizes, num_picks=70)
        case.sink += level
        for batch_invariant in (False, True):
            check(case, batch_invariant)


@pytest.mark.parametrize("sizes", [FLASH, BUNDLED])
@pytest.mark.parametrize(("num_rows", "num_picks"), [(40, 512), (300, 512), (150, 0)])
def test_rows_alone_have_the_same_bits_in_batch_invariant_mode(device, sizes, num_rows, num_picks):
    case = make_case(device, num_rows, sizes, num_picks=num_picks)
    together = kernel(case, batch_invariant=True)
    for some in (1, 2, 9, 33):
        for begin in (0, 4, num_rows - some):
            alone = kernel(case.rows(slice(begin, begin + some)), batch_invariant=True)
            assert torch.equal(alone, together[begin : begin + some]), (case.seed, some, begin)


@pytest.mark.parametrize(("sizes", "some", "num_rows"), [(BUNDLED, 1, 9), (FLASH, 1, 3)])
def test_rows_whose_tiles_are_split_have_the_same_bits(device, sizes, some, num_rows):
    """Other numbers of splits give other bits; here every tile is one."""
    case = make_case(device, num_rows, sizes)
    together = kernel(case)
    for begin in range(num_rows):
        alone = kernel(case.rows(slice(begin, begin + some)))
        assert torch.equal(alone, together[begin : begin + some]), (case.seed, begin)


def test_clusters_give_a_row_the_same_bits(device):
    """Of one size of clusters, which follows from the number of multiprocessors."""
    at_once = num_processors(device)
    sizes = [n for n in range(1, at_once + 1) if best_splits(n, 10, at_once) > 1]
    for splits in (2, 4, 8):
        counts = [n for n in sizes if best_splits(n, 10, at_once) == splits and n * 10 > 0.25 * at_once]
        case = make_case(device, max(counts), FLASH)
        together, few = kernel(case), min(counts)
        assert torch.equal(kernel(case.rows(slice(0, few))), together[:few]), (case.seed, splits, counts)


def test_absent_places_behind_a_row_do_not_change_its_bits(device):
    case = make_case(device, 6, FLASH, num_picks=100)
    wider = Case(**vars(case))
    wider.picks = torch.nn.functional.pad(case.picks, (0, 300), value=-1)
    assert torch.equal(kernel(case, batch_invariant=True), kernel(wider, batch_invariant=True)), case.seed


@pytest.mark.parametrize("rounding", [FP4, FP8])
def test_many_rows(device, rounding):
    check(make_case(device, 2000, FLASH, absent=0.02, rounding=rounding))


@pytest.mark.parametrize("rounding", [FP4, FP8])
@pytest.mark.parametrize("num_rows", [1, 5, 12, 30, 150])
def test_two_blocks_of_heads_half_as_wide(device, num_rows, rounding):
    check(make_case(device, num_rows, (128, 256), width=100, num_picks=300, rounding=rounding))


def test_heads_of_two_thread_blocks_and_vectors_without_whole_words(device):
    check(make_case(device, 30, (80, 64), width=100, num_picks=40))


@pytest.mark.parametrize("rounding", [FP4, FP8])
@pytest.mark.parametrize("dim", [32, 96, 160, 384])
def test_heads_of_other_sizes(device, dim, rounding):
    for num_rows, batch_invariant in ((2, False), (30, True)):
        check(make_case(device, num_rows, (6, dim), width=70, num_picks=40, rounding=rounding), batch_invariant)


def test_entries_beyond_two_to_the_31_words(device):
    """The last blocks of a cache of 9 GB."""
    case = make_case(device, 3, FLASH, num_picks=70)
    data = case.entries.cache.data
    units = 9 * 2**30 // data[0].numel()
    far = torch.empty(units, *data.shape[1:], dtype=torch.uint8, device=device)
    far[-data.shape[0] :] = data
    cache = VectorCache(far, case.entries.cache.format)
    moved = Case(**vars(case))
    moved.entries = PagedEntries(cache, case.entries.block_ids + units - data.shape[0], case.entries.first_block)
    for batch_invariant in (False, True):
        assert torch.equal(kernel(moved, batch_invariant), kernel(case, batch_invariant)), case.seed


def test_modes_without_kernels_take_the_reference_form(device):
    case = make_case(device, 2, BUNDLED, num_picks=32)
    options = case.options | {"out_dtype": torch.float32}
    args = (case.q.float(), case.window, case.window_index, case.entries, case.picks, case.sink)
    assert torch.equal(sparse_attention(False, *args, **options), reference.sparse_attention(*args, **options))


def test_vectors_that_are_not_packed_take_the_reference_form(device):
    case = make_case(device, 5, FLASH, num_picks=32)
    forms = [VectorFormat(FLASH[1], rounding, packed=False) for rounding in (FP8, FP4)]
    case.window = torch.randn(len(case.window), FLASH[1], device=device).view(torch.uint8)
    data = torch.randn(*case.entries.cache.data.shape[:2], FLASH[1], device=device).view(torch.uint8)
    case.entries = PagedEntries(VectorCache(data, forms[1]), case.entries.block_ids, case.entries.first_block)
    options = case.options | {"window_format": forms[0]}
    args = (case.q, case.window, case.window_index, case.entries, case.picks, case.sink)
    assert torch.equal(sparse_attention(False, *args, **options), reference.sparse_attention(*args, **options))
