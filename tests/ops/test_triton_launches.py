"""A launch of a Triton kernel finds the one that was compiled ahead of time, under Triton's own key.

There is no GPU here: nothing is compiled or computed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("tilelang")
pytest.importorskip("triton")

import triton
from triton.backends.compiler import GPUTarget

from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.engine.model_path import bundled_model_path
from deepinfer.ops.cuda.model_sizes import model_sizes
from tilelang_ops.jit.registry import kernel_specs
from tilelang_ops.jit.triton_spec import TritonSpec
from tilelang_ops.sampling.draw_rows import draw_rows
from tilelang_ops.sampling.draw_weights import draw_weights
from tilelang_ops.sampling.judge_drafts import judge_drafts
from tilelang_ops.sampling.kept_weights import kept_weights

DTYPES = {"*fp32": torch.float32, "*fp64": torch.float64, "*u1": torch.bool, "*i32": torch.int32, "*i64": torch.int64}
SIZES = model_sizes(DeepSeekV41Config.from_path(bundled_model_path()), 128, 5)
SPECS = [spec for spec in kernel_specs(SIZES) if isinstance(spec, TritonSpec)]


class Device:
    """Stands in for a driver; a device of its own, so that kernels have met none of its launches."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> Device:
        return self

    def get_current_stream(self, device: Device) -> int:
        return 0


class Keys(set[tuple[str, str]]):
    """Stands in for the compiler; holds the keys under which kernels are kept."""

    def compile(self, source: Any, target: GPUTarget, options: dict[str, Any], **_: object) -> SimpleNamespace:
        assert target == GPUTarget("cuda", 90, 32)
        self.add((source.hash(), triton.compiler.make_backend(target).parse_options(options).hash()))
        kernel = {"function": None, "packed_metadata": None, "asm": {"ptx": ""}}
        return SimpleNamespace(run=lambda *_: None, launch_metadata=lambda *_: None, **kernel)


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Keys:
    found = Keys()
    monkeypatch.setattr(triton, "compile", found.compile)
    monkeypatch.setattr(triton.compiler, "compile", found.compile)
    monkeypatch.setattr(type(triton.runtime.driver), "active", Device())
    return found


def taken(keys: Keys, run: Callable[[], object]) -> set[tuple[str, str]]:
    keys.clear()
    run()
    return set(keys)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
@pytest.mark.parametrize("number", [1, 48, 77])
def test_every_kernel(keys: Keys, spec: TritonSpec, number: int):
    """Whatever its numbers are."""
    numbers = {"i32": number, "fp32": float(number)}
    values = [numbers[kind] if kind in numbers else torch.empty(16, dtype=DTYPES[kind]) for kind in spec.signature]
    options = {"num_warps": spec.num_warps, "enable_fp_fusion": False}
    launched = taken(keys, lambda: spec.kernel[(1,)](*values, **spec.statics, **options))
    assert len(launched) == 1
    assert launched == taken(keys, lambda: spec.source("sm_90a"))


@pytest.mark.parametrize(("draws", "filters"), [(False, False), (True, False), (True, True)])
def test_draws(keys: Keys, draws: bool, filters: bool):
    ahead = taken(keys, lambda: [spec.source("sm_90a") for spec in SPECS if spec.name.startswith("sampling.")])
    vocab, ids = SIZES.vocab_size, SIZES.vocab_size - 3
    logits, rules, places = torch.zeros(5, vocab), torch.zeros(5, 7, dtype=torch.int64), torch.arange(5)
    rounded, exact = torch.zeros(5, ids), torch.zeros(5, ids, dtype=torch.int64)

    def launch() -> None:
        drawn = draw_rows(logits, rules, ids, stream_word=0, draws=draws, filters=filters)
        for weights in (rounded, exact):
            kept_weights(logits, rules, drawn, places, weights)
        draw_weights(rounded, places, rules, drawn.tokens, stream_word=3)
        judge_drafts(exact, rounded, places, places, rules, drawn.tokens)

    launched = taken(keys, launch)
    assert launched <= ahead
    assert len(launched) == 6 + draws + filters


def test_keys_do_not_depend_on_what_came_before():
    """Another process that asks for the kernels backwards, so that callers come before what they share with others."""
    program = """
import importlib, json, sys
names = json.load(sys.stdin)
print(json.dumps([getattr(importlib.import_module(module), name).cache_key for module, name in names]))
"""
    names = [(spec.kernel.fn.__module__, spec.kernel.fn.__name__) for spec in SPECS]
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        input=json.dumps(names[::-1]),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)[::-1] == [spec.kernel.cache_key for spec in SPECS]
