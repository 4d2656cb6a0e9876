"""The bench of GPU ops, with the reference on a CPU in the place of a GPU."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import pytest
import torch

from deepinfer.bench import cuda_op_bench
from deepinfer.bench.cuda_op_bench import CudaOpBench
from deepinfer.bench.cuda_step_ops import CudaStepOps
from deepinfer.bench.cuda_timer import GpuTime
from deepinfer.bench.spread import Spread
from deepinfer.ops import Ops, reference
from tests.support.golden_case import GOLDEN

L2_BYTES = 4096


class CountingTimer:
    """Runs everything once and says that it took a microsecond a call."""

    def __init__(self, repeats: int) -> None:
        self.sizes: list[int] = []

    def time(self, runs: Sequence[Callable[[], object]]) -> GpuTime:
        for run in runs:
            run()
        self.sizes.append(len(runs))
        return GpuTime(Spread.of([1e-6]), is_graph=len(self.sizes) % 2 == 0)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> CudaOpBench:
    monkeypatch.setattr(cuda_op_bench, "select_backend", lambda *_: SimpleNamespace(ops=reference))
    monkeypatch.setattr(cuda_op_bench, "CudaTimer", CountingTimer)
    monkeypatch.setattr(cuda_op_bench, "use_kernel_cache", lambda directory: None)
    for name, value in (("_POOL_BYTES", 1 << 14), ("_COPY_BYTES", 1 << 10), ("_MATRIX_SIZE", 8), ("_MOST_SETS", 3)):
        monkeypatch.setattr(cuda_op_bench, name, value)
    monkeypatch.setattr(torch.cuda, "device", contextlib.nullcontext)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(L2_cache_size=L2_BYTES))
    return CudaOpBench("cpu", 1)


def test_all_ops_in_the_order_of_rows(bench: CudaOpBench) -> None:
    figures = bench.run(str(GOLDEN / "nano-s1" / "config.json"), [3, 1], context_len=200)
    assert [item.op.rows for item in figures] == sorted((item.op.rows for item in figures), reverse=True)
    by_use = {(item.op.name, item.use, item.op.rows): item for item in figures}
    assert bench.failures == [] and len(by_use) == len(figures) and {rows for _, _, rows in by_use} == {1, 3}
    for item in figures:
        assert (item.num_sets == 1) or (item.num_sets <= 3 and item.op.name not in ("rms_norm", "hc_write")), item
        assert not item.is_cold or item.num_sets * item.op.num_bytes > L2_BYTES, item
        assert item.op.seconds["cuda"].median == 1e-6
    assert by_use["moe", "experts", 1].is_cold and not by_use["rms_norm", "low-rank query", 1].is_cold
    assert "torch" in by_use["linear", "head", 3].op.seconds


def test_a_failing_op_leaves_the_others(bench: CudaOpBench) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("too much shared memory\nand more")

    ops = {name: getattr(reference, name) for name in vars(Ops) if not name.startswith("_")}
    bench._ops = SimpleNamespace(**ops | {"hc_write": fail})
    figures = bench.run(str(GOLDEN / "nano-s1"), [2], context_len=200)
    assert {item.op.name for item in figures} >= {"hc_mix", "moe", "engram_gate"}
    assert bench.failures == ["hc_write (out of a layer), 2 rows: RuntimeError: too much shared memory"]


def test_ops_of_whole_steps(bench: CudaOpBench) -> None:
    ops = CudaStepOps(bench, str(GOLDEN / "nano-s1"), context_len=20).run([(2, 0), (2, 3)], [513])
    assert bench.failures == [] and list(ops) == [(2, 0), (2, 3), 513]
    rows = {step: {(op.op, op.use): op.rows for op in found} for step, found in ops.items()}
    assert set(rows[2, 0].values()) == {2} and rows[513]["moe", "experts"] == 513 and rows[513]["linear", "head"] == 1
    calls = [op.rows for op in ops[2, 3] if (op.op, op.use) == ("quantized_linear", "query up")]
    assert calls == [8, 6]  # of the target and of the draft pass
    assert rows[2, 3]["moe", "draft experts"] == 6 and rows[2, 3]["linear", "draft Markov head"] == 2
    assert all(op.seconds == 1e-6 and op.floor_seconds > 3e-6 for found in ops.values() for op in found)


def test_limits_count_both_ways_of_a_copy(bench: CudaOpBench) -> None:
    assert bench.limits.bytes_per_second == pytest.approx(2 * 2**10 / 1e-6)
    assert bench.limits.multiply_adds_per_second == pytest.approx(8**3 / 1e-6)


def test_a_library_that_refuses_is_told(bench: CudaOpBench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("no such layout\nand more")

    monkeypatch.setattr(torch.nn.functional, "rms_norm", refuse)
    figures = bench.run(str(GOLDEN / "nano-s1"), [1], context_len=200)
    (norm,) = itertools.filterfalse(lambda item: item.op.name != "rms_norm", figures)
    assert norm.library == "rms_norm: no such layout" and "torch" not in norm.op.seconds
