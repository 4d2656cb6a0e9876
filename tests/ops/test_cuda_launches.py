"""The kernels that a run of the bundled model launches: compiled ahead of time, and given what they are written for.

There is no GPU here: kernels compute nothing, and what they would have written is zeros.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

import deepinfer.engine.runtime as engine_runtime
from deepinfer import LLM, SamplingParams
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.engine.model_path import bundled_model_path
from deepinfer.ops.selected_backend import SelectedBackend
from tests.ops.builders import fp4_weight, normal

pytest.importorskip("tilelang")
pytest.importorskip("triton")

from tvm import tirx

from deepinfer.ops.cuda.cuda_ops import cuda_ops
from deepinfer.ops.cuda.model_sizes import model_sizes
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.registry import kernel_specs

H200 = {"arch_of": lambda device: "sm_90a", "num_processors": lambda device: 132}
Launch = tuple[Callable[..., Any], tuple[tuple[str, Any], ...]]


@functools.cache
def program(launch: Launch) -> Any:
    """TileLang's form of a kernel, from which its parameters can be read."""
    factory, statics = launch
    return factory("sm_90a", **dict(statics))


class Launches:
    """Stands in for compilation. `seen` holds what was launched; arguments are held to the kernel's signature."""

    def __init__(self) -> None:
        self.seen: set[Launch] = set()

    def compiled(self, factory: Callable[..., Any], arch: str, **statics: Any) -> Callable[..., None]:
        launch = (factory, tuple(sorted(statics.items())))

        def call(*arguments: Any) -> None:
            self.seen.add(launch)
            check_arguments(program(launch), arguments)

        return call


def check_arguments(program: Any, arguments: tuple[Any, ...]) -> None:
    """Number, dtypes and shapes of the arguments; a size that several share is one size."""
    sizes: dict[str, int] = {}
    for argument, parameter in zip(arguments, program.params, strict=True):
        buffer = program.buffer_map.get(parameter)
        if buffer is None:
            assert isinstance(argument, (int, float)), (parameter.name, argument)
            continue
        where = f"{buffer.name} of {program.attrs['global_symbol']}: {tuple(argument.shape)} {argument.dtype}"
        assert str(argument.dtype) == f"torch.{buffer.dtype}" and argument.dim() == len(buffer.shape), where
        assert argument.is_contiguous() or len(buffer.strides), where
        for found, wanted in zip(argument.shape, buffer.shape, strict=True):
            if isinstance(wanted, tirx.Var):
                assert sizes.setdefault(wanted.name, found) == found, f"{where}, {wanted.name} is {sizes[wanted.name]}"
            else:
                assert int(wanted) == found, f"{where}, wanted {list(buffer.shape)}"


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Launches:
    found = Launches()
    monkeypatch.setattr(torch, "empty", torch.zeros)
    for name, module in list(sys.modules.items()):
        if name.startswith(("tilelang_ops.", "deepinfer.ops.cuda.")) and not name.startswith("tilelang_ops.jit."):
            for attribute, replacement in {"compiled": found.compiled, **H200}.items():
                if hasattr(module, attribute):
                    monkeypatch.setattr(module, attribute, replacement)
    return found


@pytest.mark.parametrize(
    ("count", "length", "options", "among"),
    [
        (1, 300, {}, {"row_product_kernel", "index_scores_kernel", "combine_splits_kernel", "down_few_kernel"}),
        (12, 20, {}, {"split_product_kernel", "tile_product_kernel", "stream_down_kernel", "route_logits_few_kernel"}),
        (1, 300, {"yoco": {"mode": "compact"}}, {"gather_rows_kernel", "select_topk_kernel"}),
        (12, 60, {"batch_invariant": True}, {"stream_down_kernel", "route_logits_kernel"}),
    ],
)
def test_a_run(launches: Launches, monkeypatch: pytest.MonkeyPatch, count, length, options, among):
    batch_invariant = options.get("batch_invariant", False)
    backend = SelectedBackend("reference", cuda_ops(batch_invariant), "", {})
    monkeypatch.setattr(engine_runtime, "select_backend", lambda *_: backend)
    params = SamplingParams(temperature=0, max_tokens=2, ignore_eos=True)
    with LLM(device="cpu", max_model_len=512, **options) as llm:
        outputs = llm.generate([[300 + i] * length for i in range(count)], params, use_tqdm=False)
    assert [output.error for output in outputs] == [None] * count
    config = DeepSeekV41Config.from_path(bundled_model_path())
    ahead = {
        (spec.factory, tuple(sorted(spec.statics.items())))
        for spec in kernel_specs(model_sizes(config, 128, config.dspark_block_size))
        if isinstance(spec, KernelSpec)
    }
    missing = [(factory.__name__, statics) for factory, statics in launches.seen - ahead]
    assert not missing
    names = {factory.__name__ for factory, _ in launches.seen}
    assert among <= names
    assert not (
        batch_invariant
        and names & {"combine_splits_kernel", "down_few_kernel", "route_logits_few_kernel", "split_product_kernel"}
    )


@pytest.mark.parametrize(("likely", "kernel"), [(4, "down_few_kernel"), (60, "stream_down_kernel")])
def test_picks_of_one_rank(launches: Launches, likely: int, kernel: str):
    """Without the shared expert; how many of the ids are picks chooses the form."""
    routed = (fp4_weight(8, 192, 256), fp4_weight(8, 192, 256, seed=3), fp4_weight(8, 256, 192))
    ids, weights, options = torch.randint(-1, 8, (20, 3)), normal(20, 3), {"quantize": True, "limit": 7.0}
    ops, x = cuda_ops(False), normal(20, 256, dtype=torch.bfloat16)
    parts = ops.moe(x, ids, weights, *routed, None, act_dtype=torch.bfloat16, likely=likely, **options)
    assert parts.shape == (60, 256)
    assert ops.sum_experts(parts.view(20, 3, 256), x).shape == x.shape
    assert {kernel, "combine_kernel"} <= {factory.__name__ for factory, _ in launches.seen}
