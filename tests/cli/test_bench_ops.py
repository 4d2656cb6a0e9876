"""Op calls of a model, what they are worth, and the command that times them."""

import json

import pytest
import torch
from typer.testing import CliRunner

from deepinfer.bench.cuda_op_figures import CudaOpFigures
from deepinfer.bench.machine_limits import MachineLimits
from deepinfer.bench.op_call import OpCall
from deepinfer.bench.op_figures import OpFigures
from deepinfer.bench.recording_ops import RecordingOps
from deepinfer.bench.spread import Spread
from deepinfer.cli.bench_ops import gpu_table
from deepinfer.cli.main import app
from deepinfer.core.quantized_weight import QuantizedWeight, WeightFormat
from deepinfer.ops import reference
from tests.cli.test_main import MODEL, invoke


def test_ops_of_a_model() -> None:
    report = json.loads(invoke("bench", "ops", *MODEL, "--rows", "2", "--context-len", "7", "--repeats", "1", "--json"))
    assert report["limits"]["gigabytes_per_second"] > 0
    ops = {item["op"]: item for item in report["ops"]}
    assert {"hc_step", "quantized_linear", "moe", "sparse_attention", "linear", "rms_norm"} <= set(ops)
    assert "cpu native" in ops["moe"]["backends"] and "sparse_attention" in invoke(
        "bench", "ops", *MODEL, "--repeats", "1"
    )
    assert ops["rms_norm"]["multiply_adds"] is None and ops["moe"]["multiply_adds"] > 0
    for item in report["ops"]:
        assert item["rows"] == 2 and item["calls"] >= 1 and item["bytes"] > 0
        assert {"reference", "cpu"} <= set(item["backends"])
        assert all(figures["median_us"] > 0 for figures in item["backends"].values())


def test_table_of_one_backend() -> None:
    options = [*MODEL, "--rows", "1", "--context-len", "3", "--backend", "reference", "--repeats", "1"]
    lines = invoke("bench", "ops", *options).splitlines()
    assert "GB/s" in lines[0] and lines[1].endswith("reference us  memory  arithmetic")
    invoke("bench", "ops", *MODEL, "--backend", "none", code=2)


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a GPU")
def test_gpu_options() -> None:
    for options in ([], ["--numerics", "fp32"], ["--backend", "cpu"]):
        invoke("bench", "ops", "--device", "cuda", *options, code=2)
    invoke("bench", "ops", "--device", "tpu", code=2)
    result = CliRunner().invoke(app, ["bench", "ops", "--device", "cuda"])
    assert "no GPU" in result.output and "--device cpu" in result.output and "backend" not in result.output


def test_table_of_a_gpu() -> None:
    def figures(multiply_adds: int | None, seconds: dict[str, float]) -> OpFigures:
        spreads = {name: Spread.of([value]) for name, value in seconds.items()}
        return OpFigures(8, "linear", "8x4 4x4", 40, 4_000_000, multiply_adds, spreads)

    limits = MachineLimits(4e12, 400e12)
    items = [
        CudaOpFigures(figures(10**9, {"cuda": 4e-6, "torch": 5e-6}), "head", 3, True, True, "linear, bf16 result"),
        CudaOpFigures(figures(None, {"cuda": 2e-6}), "norm", 1, False, False, ""),
    ]
    title, _, first, second = gpu_table("H200", limits, items).plain().splitlines()
    assert "4.00 TB/s copied, 800 TFLOP/s in bf16" in title
    assert first.split()[:4] == ["linear", "head", "graph,", "cold"] and first.endswith("5.0 (5.0 .. 5.0)")
    assert "4000.0  4.0 (4.0 .. 4.0)     25%     62%    5.5      138%" in first and second.split()[2] == "events"
    report = items[0].to_dict(limits)
    assert report["timed_by"] == "CUDA graph" and report["cold"] and report["operand_sets"] == 3
    assert report["floor_us"] == pytest.approx(10**9 / 400e12 * 1e6 + 3)
    assert report["backends"]["torch"]["median_us"] == pytest.approx(5)


def test_work_of_calls() -> None:
    x, weight = torch.zeros(3, 8), torch.zeros(5, 8)
    linear = OpCall("linear", (x, weight, torch.float32), {}, torch.zeros(3, 5))
    assert linear.num_bytes == 4 * (24 + 40 + 15) and linear.multiply_adds == 3 * 5 * 8
    assert linear.shapes == "3x8 5x8" and not linear.is_empty

    def experts(count: int) -> QuantizedWeight:
        codes, scales = torch.zeros(count, 32, 16, dtype=torch.uint8), torch.zeros(count, 32, 1, dtype=torch.uint8)
        return QuantizedWeight(codes, scales, WeightFormat.FP4_ROW32)

    x, ids, weights = torch.zeros(2, 32), torch.tensor([[0, 3], [3, 0]]), torch.zeros(2, 2)
    routed, one = experts(4), 32 * 17
    moe = OpCall("moe", (x, ids, weights, routed, routed, routed, (experts(1),) * 3), {}, torch.zeros(2, 32))
    assert moe.multiply_adds == 3 * 2 * 3 * 32 * 32  # two experts and the shared one
    assert moe.num_bytes == 2 * 256 + 32 + 16 + 3 * (2 + 1) * one  # two of four experts are read


def test_recording_counts_calls_of_equal_shapes() -> None:
    ops = RecordingOps(reference)
    for rows in (1, 1, 2, 0):
        assert ops.rms_norm(torch.ones(rows, 4), None, 1e-6, torch.float32).shape == (rows, 4)
    calls = list(ops.calls.values())
    assert [(call.shapes, call.count, call.is_empty) for call in calls] == [
        ("1x4", 2, False),
        ("2x4", 1, False),
        ("0x4", 1, True),
    ]
