"""What can be said of the cuda backend without a GPU: it has every op, and leaves to the reference what it must."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from deepinfer.core.cache_spec import KVRounding, VectorFormat
from deepinfer.core.cache_tensors import VectorCache
from deepinfer.ops import Ops, reference
from tests.ops.builders import fp4_weight, fp8_weight, normal, paged

pytest.importorskip("tilelang")
pytest.importorskip("triton")

from deepinfer.ops.cuda.cuda_ops import cuda_ops
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.jit.registry import kernel_specs

F32, BF16 = torch.float32, torch.bfloat16
OPS = sorted(name for name in vars(Ops) if not name.startswith("_"))
Call = Callable[[Any], Any]


@pytest.mark.parametrize("batch_invariant", [False, True])
@pytest.mark.parametrize("name", OPS)
def test_signature(name: str, batch_invariant: bool):
    function = getattr(cuda_ops(batch_invariant), name)
    contract = inspect.signature(getattr(Ops, name))
    wanted = contract.replace(parameters=[p for p in contract.parameters.values() if p.name != "self"])
    assert inspect.signature(function) == wanted
    plain = getattr(function, "func", function)
    own = plain.__module__ == f"deepinfer.ops.cuda.{name}"
    assert own or name == "rope_table", f"{name} is that of {plain.__module__}"
    assert inspect.getdoc(plain)


def moe_call(dim: int, hidden_dim: int, dtype: torch.dtype) -> Call:
    routed = (fp4_weight(4, hidden_dim, dim), fp4_weight(4, hidden_dim, dim, seed=3), fp4_weight(4, dim, hidden_dim))
    shared = (fp8_weight(hidden_dim, dim), fp8_weight(hidden_dim, dim, seed=3), fp8_weight(dim, hidden_dim))
    x, ids, weights = normal(5, dim, dtype=dtype), torch.tensor([[0, 3], [1, 0], [2, 3], [3, 1], [0, 1]]), normal(5, 2)
    return lambda ops: ops.moe(x, ids, weights, *routed, shared, limit=7.0, quantize=True, act_dtype=dtype)


def product_calls(dim: int, dtype: torch.dtype) -> dict[str, Call]:
    """Of inputs [3, dim]."""
    x, fp8, gate = normal(3, dim, dtype=dtype), fp8_weight(40, dim), normal(6, dim, seed=1, dtype=dtype)
    route = {"top_k": 2, "scaling": 1.5, "normalize": True}
    return {
        "linear": lambda ops: ops.linear(x, gate, dtype),
        "quantized_linear": lambda ops: ops.quantized_linear(x, fp8, quantize=True, out_dtype=dtype),
        "route": lambda ops: ops.route(x, gate, normal(6), **route),
    }


def vector_calls(dim: int, dtype: torch.dtype) -> dict[str, Call]:
    """Elementwise ops and norms on rows of `dim` columns."""
    x, weight, cos, sin = (normal(3, 4, dim, dtype=dtype), normal(dim, dtype=dtype), normal(3, 2), normal(3, 2, seed=1))
    pre, comb, table = normal(3, 4), normal(3, 4, 4), normal(9, dim, dtype=dtype)
    fn, weights, mix = normal(24, 4 * dim), normal(4, dim, dtype=dtype), {"eps": 1e-6, "norm_eps": 1e-6}
    step = {"sinkhorn_iters": 3, **mix, "out_dtype": dtype}
    return {
        "rms_norm": lambda ops: ops.rms_norm(x, weight, 1e-6, dtype),
        "apply_rope": lambda ops: ops.apply_rope(x, cos, sin, inverse=True),
        "expand_embedding": lambda ops: ops.expand_embedding(torch.tensor([8, 0]), table, 3, dtype),
        "hc_mix": lambda ops: ops.hc_mix(x, fn, normal(24), normal(3), sinkhorn_iters=3, **mix),
        "hc_read": lambda ops: ops.hc_read(x, pre, dtype),
        "hc_read_norm": lambda ops: ops.hc_read_norm(x, pre, weight, 1e-6, dtype),
        "hc_step": lambda ops: ops.hc_step(x, pre, (x[:, 0], pre, comb), weight, (fn, normal(24), normal(3)), **step),
        "hc_write": lambda ops: ops.hc_write(x, x[:, 0], pre, comb),
        "engram_gate": lambda ops: ops.engram_gate(x, x + 1, x[:, 1], weights, weights, eps=1e-6),
    }


def cache_calls() -> dict[str, Call]:
    """What float32 numerics ask of caches whose vectors are not packed."""
    form, keys = VectorFormat(32, KVRounding.FP8_GROUP32, False), VectorFormat(32, KVRounding.FP4_GROUP32, False)
    entries = paged(normal(1, 16, 32), keys, 8, torch.zeros(3, dtype=torch.int64))
    window = reference.encode_vectors(normal(6, 32), form)
    index, picks = torch.tensor([[0, 1], [2, -1], [5, 3]]), torch.tensor([[0, 3], [1, -1], [2, 15]])
    options = {"max_visible": 16, "topk": 4, "scale": 0.5, "round_bf16": False}
    blocks = {"block_size": 4, "num_blocks": 2, "with_margins": True}
    second, carried = torch.tensor([1, 2]), torch.tensor([-1, 3])
    weight = fp8_weight(2 * 8, 64)

    def stored(ops: Any) -> torch.Tensor:
        cache = VectorCache(torch.zeros(2, 3, form.num_bytes, dtype=torch.uint8), form)
        where = (torch.tensor([1, -1, 0]), torch.tensor([2, 0, 0]))
        ops.store_vectors(normal(3, 32), normal(32), normal(3, 2), normal(3, 2), cache, *where, eps=0.1, act_dtype=F32)
        return cache.data

    return {
        "store_vectors": stored,
        "compress_pairs": lambda ops: ops.compress_pairs(normal(3, 2, 8), normal(2, 3, 2, 8), second, carried, F32),
        "rotate_grouped_linear": lambda ops: ops.rotate_grouped_linear(
            normal(3, 4, 32), normal(3, 4), normal(3, 4), weight, num_groups=2, quantize=True, out_dtype=F32
        ),
        "select_entries": lambda ops: ops.select_entries(
            normal(3, 2, 32), normal(3, 2), entries, torch.tensor([16, 3, 9]), None, **options, **blocks
        ),
        "sparse_attention": lambda ops: ops.sparse_attention(
            normal(3, 2, 32), window, index, entries, picks, normal(2), window_format=form, scale=0.3, out_dtype=F32
        ),
    }


def five_stream_calls() -> dict[str, Call]:
    """More streams than a warp has lanes for."""
    x, pre, weight = normal(3, 5, 32, dtype=BF16), normal(3, 5), normal(32, dtype=BF16)
    mixing, options = (normal(35, 160), normal(35), normal(3)), {"sinkhorn_iters": 3, "eps": 1e-6, "norm_eps": 1e-6}
    return {
        "hc_mix": lambda ops: ops.hc_mix(x, *mixing, **options),
        "hc_step": lambda ops: ops.hc_step(x, pre, None, weight, mixing, **options, out_dtype=BF16),
    }


CALLS = {
    **{f"{name}-float32": call for name, call in (product_calls(64, F32) | vector_calls(32, F32)).items()},
    **{f"{name}-width": call for name, call in (product_calls(20, BF16) | vector_calls(20, BF16)).items()},
    **{f"{name}-float32": call for name, call in cache_calls().items()},
    **{f"{name}-streams": call for name, call in five_stream_calls().items()},
    "moe-float32": moe_call(32, 64, F32),
    "moe-width": moe_call(32, 48, BF16),
    "round_vectors-none": lambda ops: ops.round_vectors(normal(3, 32), KVRounding.NONE),
    "gather_rows-halves": lambda ops: ops.gather_rows(normal(7, 3, dtype=BF16), torch.tensor([6, 0])),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_has_no_kernel_is_the_references(name: str, monkeypatch: pytest.MonkeyPatch):
    """Called on a CPU, where a kernel could not even be launched."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: pytest.fail("took the way of a kernel"))
    got, want = tensors(CALLS[name](cuda_ops(True))), tensors(CALLS[name](reference))
    assert got and len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype and torch.equal(a, b)


def tensors(result: Any) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    parts = result if isinstance(result, tuple) else [getattr(result, f.name) for f in dataclasses.fields(result)]
    return [part for part in parts if part is not None]


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_heads_that_do_not_fit_a_kernel_are_the_references(arch: str, monkeypatch: pytest.MonkeyPatch):
    module = importlib.import_module("deepinfer.ops.cuda.sparse_attention")  # not the function of that name
    taken: list[int] = []
    monkeypatch.setattr(module, "arch_of", lambda device: arch)
    monkeypatch.setattr(module, "attend", lambda q, *_, **__: taken.append(q.shape[2]) or q)
    sizes = (32, 64, 96, 128, 512, 544)
    for dim in sizes:
        form, q, index = VectorFormat(dim, KVRounding.FP8_GROUP32, True), normal(2, 2, dim, dtype=BF16), torch.eye(2)
        window = reference.encode_vectors(normal(2, dim), form)
        options = {"window_format": form, "scale": 0.3, "out_dtype": BF16}
        arguments = (q, window, index.long(), None, None, normal(2))
        got = cuda_ops(False).sparse_attention(*arguments, **options)
        assert torch.equal(got, q if dim in taken else reference.sparse_attention(*arguments, **options))
    assert taken == ([64, 128, 512] if arch == "sm_100a" else [32, 64, 96, 128, 512])


def random_sizes(rng: np.random.Generator) -> ModelSizes:
    """Any sizes that a config may have, with or without drafts and Engram."""
    experts, draft_experts = (int(n) for n in rng.integers(2, 40, 2))
    has_engram, has_drafts = (int(n) for n in rng.integers(0, 2, 2))
    width, half = (lambda: 32 * int(rng.integers(1, 9))), (lambda: 4 * int(rng.integers(1, 40)))
    heads_of_a_group, groups = (int(n) for n in rng.integers(1, 5, 2))
    return ModelSizes(
        hidden_size=width(),
        vocab_size=int(rng.integers(100, 999)),
        num_heads=heads_of_a_group * groups,
        head_dim=width(),
        rope_dim=2 * int(rng.integers(1, 17)),
        q_lora_rank=half(),
        o_lora_rank=half(),
        o_groups=groups,
        block_size=2 * int(rng.integers(1, 100)),
        num_streams=int(rng.integers(1, 6)),
        sinkhorn_iters=int(rng.integers(1, 21)),
        num_experts=experts,
        num_experts_per_tok=int(rng.integers(1, experts + 1)),
        moe_intermediate_size=2 * int(rng.integers(1, 100)),
        index_n_heads=int(rng.integers(1, 40)),
        index_head_dim=width(),
        candidate_block_size=int(rng.integers(1, 20)),
        engram_max_ngram_size=has_engram * int(rng.integers(2, 5)),
        engram_n_heads=has_engram * int(rng.integers(1, 5)),
        engram_head_dim=has_engram * int(rng.integers(1, 50)),
        num_drafts=has_drafts * int(rng.integers(1, 6)),
        draft_num_experts=has_drafts * draft_experts,
        draft_num_experts_per_tok=has_drafts * int(rng.integers(1, draft_experts + 1)),
        markov_rank=has_drafts * half(),
        num_draft_features=has_drafts * 3,
    )


@pytest.mark.parametrize("seed", range(3))
def test_kernels_of_any_model_can_be_written(seed: int):
    """One of every name and architecture, as TileLang programs; CI compiles those of two models."""
    rng = np.random.default_rng(seed)
    sizes = random_sizes(rng)
    specs = {spec.name: spec for spec in kernel_specs(sizes) if isinstance(spec, KernelSpec)}
    assert {"norm.rms_norm", "attention.sparse_attention.whole", "moe.route"} <= set(specs)
    for name, spec in specs.items():
        arch = str(rng.choice(spec.arches))
        try:
            spec.factory(arch, **spec.statics)
        except Exception as error:
            pytest.fail(f"{name} {spec.statics} for {arch}: {error}\n{sizes}")
