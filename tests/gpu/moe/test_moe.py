"""Experts on a GPU against the reference op on the same inputs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import pytest
import torch

from deepinfer.core.cache_spec import KVRounding
from deepinfer.core.quantized_weight import QuantizedWeight
from deepinfer.ops import reference
from deepinfer.ops.reference.gated_hidden import gated_hidden
from tests.gpu.moe.random_experts import RandomExperts, fresh_generator, random_choice, random_experts
from tests.gpu.poison import poisoned_memory

pytest.importorskip("tilelang")

LIMIT = 10.0
MINI = (16, 2, 256, 192)  # experts, chosen, width, hidden width
DRAFT = (8, 2, 256, 192)
ODD = (5, 3, 160, 96)  # widths that no tile divides
WIDE = (24, 6, 5120, 2304)
WIDE_DRAFT = (24, 3, 5120, 2304)
ROWS = (1, 2, 3, 5, 8, 9, 12, 13, 17, 33, 64, 65, 129, 300)


def operand_place(column):
    from tilelang_ops.moe.stream_shape import operand_place

    return operand_place(column)


def run(device, x, ids, weights, experts: RandomExperts, *, invariant=False, likely=None):
    from deepinfer.ops.cuda.moe import moe

    with poisoned_memory():
        return moe(
            invariant,
            x,
            ids,
            weights,
            *experts.routed,
            experts.shared,
            limit=LIMIT,
            quantize=True,
            act_dtype=torch.bfloat16,
            likely=likely,
        )


def expected(x, ids, weights, experts: RandomExperts):
    return reference.moe(
        x, ids, weights, *experts.routed, experts.shared, limit=LIMIT, quantize=True, act_dtype=torch.bfloat16
    )


def random_rows(num_rows, dim, top_k, generator):
    x = torch.randn(num_rows, dim, generator=generator, device=generator.device).to(torch.bfloat16)
    weights = torch.rand(num_rows, top_k, generator=generator, device=generator.device) + 0.1
    return x, weights


def assert_close(got, want, what):
    """Of the whole op: most rows are within 3e-3 of the reference's norm; in a few, a hidden code has moved by a step
    (its sums were added in another order), up to 3e-2 of a narrow row. `test_each_half` holds both halves to the bounds
    of a product and of a quantizer; a wrong tile, scale or expert is far beyond either."""
    assert got.shape == want.shape and got.dtype == want.dtype, f"{what}: {got.shape} {got.dtype}"
    got, want = got.double(), want.double()
    assert got.isfinite().all(), f"{what}: not finite first at {(~got.isfinite()).nonzero()[0].tolist()}"
    errors = (got - want).norm(dim=1) / want.norm(dim=1)
    far = divmod((got - want).abs().argmax().item(), got.shape[1])
    place = f"worst row {int(errors.argmax())} ({errors.max().item():.2e}), worst element {far}"
    wrong = int((errors > 3e-3).sum())
    assert errors.max() <= 3e-2 and wrong <= 1 + len(errors) // 20, f"{what}: {wrong} rows beyond 3e-3; {place}"


@dataclass
class Half:
    """What a kernel of the second half was given and has written of the routed experts, or of the shared one.

    Attributes:
        hidden: float32 [places, I], the first half's values; those of "few" have not passed Q8/32 yet.
        expert: int64 [places] expert of each, -1: the shared one.
        place: int64 [places] row of `out` that each becomes.
        out: bf16 [places, D].
    """

    hidden: torch.Tensor
    expert: torch.Tensor
    place: torch.Tensor
    out: torch.Tensor

    @classmethod
    def shared(cls, hidden, out) -> Half:
        place = torch.arange(len(hidden), device=hidden.device)
        return cls(hidden, torch.full_like(place, -1), place, out)

    @classmethod
    def routed(cls, hidden, lists, out) -> Half:
        order, tile_expert, tile_begin, tile_count = lists
        count = tile_count[tile_count > 0].long()
        assert torch.equal(tile_begin[tile_count > 0].long(), count.cumsum(0) - count)
        return cls(hidden, tile_expert[tile_count > 0].long().repeat_interleave(count), order.long(), out)

    @classmethod
    def both(cls, launches, hidden_dim: int) -> tuple[Half, Half]:
        """Of a call of `moe`: one launch, or SM100's two."""
        if launches[0][0] == "down":
            (_, *routed), (_, *shared) = launches
            (codes, scales, *lists), (shared_codes, shared_scales, *_) = routed, shared
            return (
                cls.routed(reference.dequantize_fp8_group32(codes, scales), lists[:4], routed[-1]),
                cls.shared(reference.dequantize_fp8_group32(shared_codes, shared_scales), shared[-1]),
            )
        ((name, hidden, *lists, out, num_assigned, _, _),) = launches
        if name == "stream_down":
            hidden = hidden[:, operand_place(torch.arange(hidden_dim, device=hidden.device))]
        hidden = hidden.float()
        routed, shared = hidden[:num_assigned], cls.shared(hidden[num_assigned:], out[num_assigned:])
        if name == "down_few":
            ids, *lists = lists
            if len(shared.hidden) == 1:
                return cls(routed, ids, torch.arange(num_assigned, device=ids.device), out[:num_assigned]), shared
        return cls.routed(routed, lists[:4], out[:num_assigned]), shared


@contextmanager
def recorded_launches(monkeypatch) -> Iterator[list[tuple]]:
    """(name, *arguments) of the second half's launches inside."""
    from tilelang_ops.moe import few_experts, stream_experts, tile_experts

    launches: list[tuple] = []
    compiled = few_experts.compiled

    def compiled_and_recorded(factory, arch, **statics):
        kernel, name = compiled(factory, arch, **statics), factory.__name__.removesuffix("_kernel")

        def call(*arguments):
            kernel(*arguments)
            launches.append((name, *arguments))

        return call if "down" in name else kernel

    with monkeypatch.context() as patch:
        for module in (few_experts, stream_experts, tile_experts):
            patch.setattr(module, "compiled", compiled_and_recorded)
        yield launches


def expert_matrices(experts: RandomExperts, expert: int) -> tuple[QuantizedWeight, ...]:
    if expert < 0:
        return experts.shared
    return tuple(QuantizedWeight(w.codes[expert], w.scales[expert], w.format) for w in experts.routed)


def code_steps(hidden, plain):
    """int64: by how many codes values that passed Q8/32 are from those of `plain`, rounded by the reference."""
    codes, scales = reference.quantize_fp8_group32(plain)
    scale = torch.exp2(scales.float() - 127).repeat_interleave(32, dim=1)[:, : plain.shape[1]]
    numbers = []
    for code in ((hidden / scale).clamp(-448, 448).to(torch.float8_e4m3fn), codes):
        bits = code.view(torch.uint8).long()
        numbers.append(torch.where(bits >= 128, 128 - bits, bits))
    return (numbers[0] - numbers[1]).abs()


def check_half(half: Half, x, weights, experts: RandomExperts, what: str):
    """Hidden codes: at most one in a thousand (or one) has moved, by one step. Outputs, from the same hidden values:
    3e-3 in every row."""
    rounded, moved = reference.round_vectors(x, KVRounding.FP8_GROUP32), 0
    product = partial(reference.quantized_linear, quantize=False, out_dtype=torch.float32)
    for expert in half.expert.unique().tolist():
        mine = half.expert == expert
        place, hidden = half.place[mine], half.hidden[mine]
        rows, row_weight = (place, None) if expert < 0 else (place // weights.shape[1], weights.reshape(-1)[place])
        w1, w3, w2 = expert_matrices(experts, expert)
        plain = gated_hidden(
            *(product(rounded[rows], w) for w in (w1, w3)),
            row_weight,
            limit=LIMIT,
            quantize=False,
            act_dtype=torch.bfloat16,
        )
        steps = code_steps(hidden, plain)
        assert steps.max() <= 1, f"{what}: expert {expert}: a hidden code is off by {int(steps.max())} steps"
        moved += int(steps.sum())
        want = product(reference.round_vectors(hidden, KVRounding.FP8_GROUP32), w2).double()
        errors = (half.out[place].double() - want).norm(dim=1) / want.norm(dim=1).clamp(min=1e-30)
        assert errors.max() <= 3e-3, f"{what}: expert {expert}: {errors.max().item():.2e} from the product"
    assert moved <= max(1, half.hidden.numel() // 1000), f"{what}: {moved} of {half.hidden.numel()} codes moved"


@pytest.mark.parametrize("invariant", [False, True])
@pytest.mark.parametrize("size", [MINI, ODD, WIDE])
def test_each_half(device, size, invariant, monkeypatch):
    num_experts, top_k, dim, hidden_dim = size
    generator = fresh_generator(device)
    experts = random_experts(num_experts, dim, hidden_dim, generator)
    for num_rows in (1, 3, 9, 33, 300):
        x, weights = random_rows(num_rows, dim, top_k, generator)
        ids = random_choice(num_rows, num_experts, top_k, generator)
        with recorded_launches(monkeypatch) as launches:
            run(device, x, ids, weights, experts, invariant=invariant)
        what = f"T {num_rows}, size {size}, invariant {invariant}, seed {generator.initial_seed()}"
        routed, shared = Half.both(launches, hidden_dim)
        assert torch.equal(routed.expert, ids.reshape(-1)[routed.place]), what
        for half in (routed, shared):
            check_half(half, x, weights, experts, what)


@pytest.mark.parametrize("invariant", [False, True])
@pytest.mark.parametrize("size", [MINI, DRAFT, ODD])
def test_rows(device, size, invariant):
    num_experts, top_k, dim, hidden_dim = size
    generator = fresh_generator(device)
    experts = random_experts(num_experts, dim, hidden_dim, generator)
    for num_rows in ROWS:
        x, weights = random_rows(num_rows, dim, top_k, generator)
        ids = random_choice(num_rows, num_experts, top_k, generator)
        got = run(device, x, ids, weights, experts, invariant=invariant)
        what = f"T {num_rows}, size {size}, invariant {invariant}, seed {generator.initial_seed()}"
        assert_close(got, expected(x, ids, weights, experts), what)
        for _ in range(3):
            again = run(device, x, ids, weights, experts, invariant=invariant)
            assert torch.equal(again, got), f"{what}: moved by {(again.float() - got.float()).abs().max().item()}"


@pytest.mark.parametrize("size", [WIDE, WIDE_DRAFT])
def test_wide_rows(device, size):
    num_experts, top_k, dim, hidden_dim = size
    generator = fresh_generator(device)
    experts = random_experts(num_experts, dim, hidden_dim, generator)
    for num_rows, invariant in ((1, False), (4, False), (9, False), (61, False), (700, False), (61, True)):
        x, weights = random_rows(num_rows, dim, top_k, generator)
        ids = random_choice(num_rows, num_experts, top_k, generator)
        got = run(device, x, ids, weights, experts, invariant=invariant)
        what = f"T {num_rows}, size {size}, invariant {invariant}, seed {generator.initial_seed()}"
        assert_close(got, expected(x, ids, weights, experts), what)
        assert torch.equal(run(device, x, ids, weights, experts, invariant=invariant), got), f"{what}: moved"


def test_all_experts_of_the_full_model(device):
    """From one row to several per expert: each form for few rows, and the first for many."""
    generator = fresh_generator(device)
    experts = random_experts(384, 5120, 2304, generator)
    for num_rows in (1, 3, 41, 96, 97):
        x, weights = random_rows(num_rows, 5120, 6, generator)
        ids = random_choice(num_rows, 384, 6, generator)
        ids[0, 0] = 383
        got = run(device, x, ids, weights, experts)
        assert_close(got, expected(x, ids, weights, experts), f"T {num_rows}, seed {generator.initial_seed()}")
        assert torch.equal(run(device, x, ids, weights, experts), got), f"T {num_rows}: moved"


@pytest.mark.parametrize("size", [MINI, ODD, WIDE])
def test_more_experts_than_multiprocessors(device, size, monkeypatch):
    """The form for that, and blocks that go through the tiles of several experts."""
    from tilelang_ops.moe import few_experts

    monkeypatch.setattr(few_experts, "num_processors", lambda device: 3)
    num_experts, top_k, dim, hidden_dim = size
    generator = fresh_generator(device)
    experts = random_experts(num_experts, dim, hidden_dim, generator)
    for num_rows in (1, 2, 5):
        x, weights = random_rows(num_rows, dim, top_k, generator)
        ids = random_choice(num_rows, num_experts, top_k, generator)
        got = run(device, x, ids, weights, experts)
        what = f"T {num_rows}, size {size}, seed {generator.initial_seed()}"
        assert_close(got, expected(x, ids, weights, experts), what)
        assert torch.equal(run(device, x, ids, weights, experts), got), f"{what}: moved"


@pytest.mark.parametrize("invariant", [False, True])
@pytest.mark.parametrize("size", [MINI, ODD])
def test_one_kind_of_expert_alone(device, size, invariant):
    """One routed expert for each row without the shared one, and the shared one without picks."""
    num_experts, _, dim, hidden_dim = size
    generator = fresh_generator(device)
    experts = random_experts(num_experts, dim, hidden_dim, generator)
    for num_rows in (0, 1, 5, 8, 9, 70, 301):
        for top_k, shared in ((1, None), (0, experts.shared)):
            x, weights = random_rows(num_rows, dim, top_k, generator)
            ids = torch.randint(num_experts, (num_rows, top_k), generator=generator, device=device)
            part = RandomExperts(experts.routed, shared)
            got = run(device, x, ids, weights, part, invariant=invariant)
            what = f"T {num_rows}, k {top_k}, size {size}, invariant {invariant}, seed {generator.initial_seed()}"
            if num_rows:
                assert_close(got, expected(x, ids, weights, part), what)
            assert got.shape == (num_rows, dim), what
            assert torch.equal(run(device, x, ids, weights, part, invariant=invariant), got), f"{what}: moved"


@pytest.mark.parametrize("invariant", [False, True])
@pytest.mark.parametrize("size", [MINI, ODD, WIDE])
def test_picks_by_themselves(device, size, invariant):
    """Without the shared expert, where some ids or all are no picks; the form follows the number of those that are."""
    num_experts, top_k, dim, hidden_dim = size
    generator = fresh_generator(device)
    experts = RandomExperts(random_experts(num_experts, dim, hidden_dim, generator).routed, None)
    for num_rows, share in ((1, 1.0), (1, 0.0), (5, 0.4), (40, 0.1), (40, 0.0), (300, 0.25)):
        x, weights = random_rows(num_rows, dim, top_k, generator)
        ids = random_choice(num_rows, num_experts, top_k, generator)
        ids[torch.rand(ids.shape, generator=generator, device=device) >= share] = -1
        picks = ids.reshape(-1) >= 0
        got = run(device, x, ids, weights, experts, invariant=invariant, likely=int(picks.sum()))
        what = f"T {num_rows}, size {size}, invariant {invariant}, seed {generator.initial_seed()}"
        assert got.shape == (num_rows * top_k, dim), what
        if picks.any():
            assert_close(got[picks], expected(x, ids, weights, experts)[picks], what)


def test_more_rows_than_a_pass(device):
    num_experts, top_k, dim, hidden_dim = MINI
    generator = fresh_generator(device)
    experts = random_experts(num_experts, dim, hidden_dim, generator)
    x, weights = random_rows(40_001, dim, top_k, generator)
    ids = random_choice(40_001, num_experts, top_k, generator)
    got = run(device, x, ids, weights, experts)
    for part in torch.arange(len(x), device=device).split(8192):
        assert_close(got[part], expected(x[part], ids[part], weights[part], experts), f"rows from {int(part[0])}")


@pytest.mark.parametrize("num_rows", [7, 70])
def test_all_rows_to_the_same_experts(device, num_rows):
    """Most experts have no rows, and two have all of them."""
    num_experts, top_k, dim, hidden_dim = MINI
    generator = fresh_generator(device)
    experts = random_experts(num_experts, dim, hidden_dim, generator)
    x, weights = random_rows(num_rows, dim, top_k, generator)
    ids = torch.tensor([[15, 3]], device=device).expand(num_rows, 2).contiguous()
    for invariant in (False, True):
        got = run(device, x, ids, weights, experts, invariant=invariant)
        assert_close(got, expected(x, ids, weights, experts), f"invariant {invariant}")


def test_no_rows(device):
    num_experts, top_k, dim, hidden_dim = MINI
    generator = fresh_generator(device)
    experts = random_experts(num_experts, dim, hidden_dim, generator)
    x, weights = random_rows(0, dim, top_k, generator)
    got = run(device, x, torch.empty(0, top_k, dtype=torch.int64, device=device), weights, experts)
    assert got.shape == (0, dim) and got.dtype is torch.bfloat16


@pytest.mark.parametrize("size", [MINI, DRAFT, ODD, WIDE])
def test_rows_alone_and_together(device, size):
    """batch_invariant: the bits of a row do not depend on its company, whatever the height of tile that it leads to."""
    num_experts, top_k, dim, hidden_dim = size
    generator = fresh_generator(device)
    experts = random_experts(num_experts, dim, hidden_dim, generator)
    x, weights = random_rows(901, dim, top_k, generator)
    ids = random_choice(901, num_experts, top_k, generator)
    together = run(device, x, ids, weights, experts, invariant=True)
    for first, last in ((0, 1), (900, 901), (37, 39), (3, 12), (100, 170), (5, 400)):
        part = slice(first, last)
        alone = run(device, x[part], ids[part], weights[part], experts, invariant=True)
        where = f"rows {first} to {last}, size {size}, seed {generator.initial_seed()}"
        assert torch.equal(alone, together[part]), where


def test_in_a_graph(device):
    """Replays with other rows and other experts: nothing depends on host values of the capture."""
    from deepinfer.ops.cuda.moe import moe

    num_experts, top_k, dim, hidden_dim = MINI
    generator = fresh_generator(device)
    experts = random_experts(num_experts, dim, hidden_dim, generator)
    for num_rows in (5, 40):
        x, weights = random_rows(num_rows, dim, top_k, generator)
        ids = random_choice(num_rows, num_experts, top_k, generator)
        arguments = {"limit": LIMIT, "quantize": True, "act_dtype": torch.bfloat16}
        moe(False, x, ids, weights, *experts.routed, experts.shared, **arguments)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = moe(False, x, ids, weights, *experts.routed, experts.shared, **arguments)
        for _ in range(3):
            x.copy_(torch.randn(num_rows, dim, generator=generator, device=device))
            ids.copy_(random_choice(num_rows, num_experts, top_k, generator))
            graph.replay()
            assert_close(out, expected(x, ids, weights, experts), f"T {num_rows}, seed {generator.initial_seed()}")
