"""The kernels that a run of the bundled model launches: compiled ahead of time, and given what they are written for.

There is no GPU here: kernels compute nothing, and what they would have written is zeros.
"""

from __future__ import annotations

import functools
import importlib
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
from tests.ops.builders import fp4_weight, fp8_weight, normal

pytest.importorskip("tilelang")
pytest.importorskip("triton")

from tvm import tirx

from deepinfer.ops.cuda.cuda_ops import cuda_ops
from deepinfer.ops.cuda.model_sizes import model_sizes
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.registry import kernel_specs

multiply_module = importlib.import_module("tilelang_ops.gemm.multiply")  # not its function of that name
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


def library(x: torch.Tensor, weight: torch.Tensor, out_dtype: torch.dtype) -> torch.Tensor:
    """Stands in for the matrix library, some of whose sums a CPU has not."""
    assert x.dtype is weight.dtype is torch.bfloat16 and x.is_contiguous() and weight.is_contiguous()
    return torch.zeros(len(x), len(weight), dtype=out_dtype)


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Launches:
    found = Launches()
    monkeypatch.setattr(torch, "empty", torch.zeros)
    monkeypatch.setattr(multiply_module, "plain_product", library)
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


def test_products_of_many_rows(launches: Launches, monkeypatch: pytest.MonkeyPatch):
    """Those that the matrix library takes: operands recoded by kernels that were compiled ahead of time."""
    wide = importlib.import_module("tilelang_ops.gemm.wide_rows")
    products: list[int] = []

    def scaled(rows: Any, weight: Any, num_groups: int = 1) -> torch.Tensor:
        products.append(num_groups)
        return torch.zeros(len(rows[0]), len(weight[0]), dtype=torch.bfloat16)

    monkeypatch.setattr(wide, "scaled_product", scaled)
    monkeypatch.setattr(wide, "scaled_group_product", scaled)
    for name in ("quantized_linear", "rotate_grouped_linear"):
        module = importlib.import_module(f"tilelang_ops.gemm.{name}")
        monkeypatch.setattr(module, "takes_wide", lambda rows, *_: rows > 64)
    ops, options = cuda_ops(False), {"quantize": True, "out_dtype": torch.bfloat16}
    for rows in (65, 64):
        x, heads, angle = normal(rows, 256), normal(rows, 8, 256), normal(rows, 4)
        out = ops.quantized_linear(x.bfloat16(), fp8_weight(96, 256), **options)
        grouped = ops.rotate_grouped_linear(
            heads.bfloat16(), angle, angle, fp8_weight(512, 512), num_groups=4, **options
        )
        assert out.shape == (rows, 96) and grouped.shape == (rows, 512)
    assert products == [1, 4]
    specs = wide.wide_specs(96, 256) + wide.wide_specs(512, 512, num_groups=4, head=(256, 8))
    ahead = {(spec.factory, tuple(sorted(spec.statics.items()))) for spec in specs}
    factories = {factory for factory, _ in ahead}
    assert len(ahead) == 4 and ahead == {launch for launch in launches.seen if launch[0] in factories}
