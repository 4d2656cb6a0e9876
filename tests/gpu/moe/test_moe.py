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
ROWS = (1, 2, 3, 5, 8, 9, 17, 33, 64, 65, 129, 300)


def run(device, x, ids, weights, experts: RandomExperts, *, invariant=False):
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
class Launch:
    """What a kernel of the second half was given and has written, and where.

    Attributes:
        hidden: float32 [places, I], the values of the first half's codes.
        expert: int64 [places] expert of each, -1: the shared one.
        place: int64 [places] row of `out` that each becomes.
        out: bf16 [places, D].
    """

    hidden: torch.Tensor
    expert: torch.Tensor
    place: torch.Tensor
    out: torch.Tensor

    @classmethod
    def of(cls, arguments, *, shared: bool) -> Launch:
        *hidden, order, tile_expert, tile_begin, tile_count, _, _, out = arguments
        has_codes = hidden[0].dtype is torch.float8_e4m3fn
        values = reference.dequantize_fp8_group32(*hidden) if has_codes else hidden[0].float()
        if shared:
            place = torch.arange(len(values), device=values.device)
            return cls(values, torch.full_like(place, -1), place, out)
        count = tile_count[tile_count > 0].long()
        assert torch.equal(tile_begin[tile_count > 0].long(), count.cumsum(0) - count)
        return cls(values, tile_expert[tile_count > 0].long().repeat_interleave(count), order.long(), out)


@contextmanager
def recorded_launches(monkeypatch) -> Iterator[list[tuple]]:
    """(arguments, whether it is the shared expert's) of the second half's launches inside."""
    from tilelang_ops.moe import moe as module

    launches: list[tuple] = []
    compiled = module.compiled

    def compiled_and_recorded(factory, arch, **statics):
        kernel = compiled(factory, arch, **statics)

        def call(*arguments):
            kernel(*arguments)
            launches.append((arguments, statics["shared"]))

        return call if factory.__name__.startswith("down") else kernel

    with monkeypatch.context() as patch:
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


def check_halves(launch: Launch, x, weights, experts: RandomExperts, what: str):
    """Hidden codes: at most one in a thousand (or one) has moved, by one step. Outputs, from the same hidden values:
    3e-3 in every row."""
    rounded, moved = reference.round_vectors(x, KVRounding.FP8_GROUP32), 0
    product = partial(reference.quantized_linear, quantize=False, out_dtype=torch.float32)
    for expert in launch.expert.unique().tolist():
        mine = launch.expert == expert
        place, hidden = launch.place[mine], launch.hidden[mine]
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
        want = product(hidden, w2).double()
        errors = (launch.out[place].double() - want).norm(dim=1) / want.norm(dim=1).clamp(min=1e-30)
        assert errors.max() <= 3e-3, f"{what}: expert {expert}: {errors.max().item():.2e} from the product"
    assert moved <= max(1, launch.hidden.numel() // 1000), f"{what}: {moved} of {launch.hidden.numel()} codes moved"


@pytest.mark.parametrize("invariant", [False, True])
@pytest.mark.parametrize("size", [MINI, ODD, WIDE])
def test_each_half(device, size, invariant, monkeypatch):
    num_experts, top_k, dim, hidden_dim = size
    generator = fresh_generator(device)
    experts = random_experts(num_experts, dim, hidden_dim, generator)
    for num_rows in (1, 5, 33, 300):
        x, weights = random_rows(num_rows, dim, top_k, generator)
        ids = random_choice(num_rows, num_experts, top_k, generator)
        with recorded_launches(monkeypatch) as launches:
            run(device, x, ids, weights, experts, invariant=invariant)
        what = f"T {num_rows}, size {size}, invariant {invariant}, seed {generator.initial_seed()}"
        routed, shared = (Launch.of(arguments, shared=is_shared) for arguments, is_shared in launches)
        assert torch.equal(routed.expert, ids.reshape(-1)[routed.place]), what
        for launch in (routed, shared):
            check_halves(launch, x, weights, experts, what)


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
    generator = fresh_generator(device)
    experts = random_experts(384, 5120, 2304, generator)
    for num_rows in (1, 3):
        x, weights = random_rows(num_rows, 5120, 6, generator)
        ids = random_choice(num_rows, 384, 6, generator)
        ids[0, 0] = 383
        got = run(device, x, ids, weights, experts)
        assert_close(got, expected(x, ids, weights, experts), f"T {num_rows}, seed {generator.initial_seed()}")


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


def test_rows_alone_and_together(device):
    """batch_invariant: the bits of a row do not depend on its company."""
    num_experts, top_k, dim, hidden_dim = MINI
    generator = fresh_generator(device)
    experts = random_experts(num_experts, dim, hidden_dim, generator)
    x, weights = random_rows(70, dim, top_k, generator)
    ids = random_choice(70, num_experts, top_k, generator)
    together = run(device, x, ids, weights, experts, invariant=True)
    for row in (0, 1, 37, 69):
        part = slice(row, row + 1)
        alone = run(device, x[part], ids[part], weights[part], experts, invariant=True)
        assert torch.equal(alone[0], together[row]), f"row {row}"


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
