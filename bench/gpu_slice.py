"""A slice of V4.1-Flash at true layer shapes on one GPU: loading, decode steps replayed from CUDA graphs, launched one
by one and component by component, how long the device is idle between decode steps with the overlapped loop and the
synchronous one, a prefill of 8,192 tokens with YOCO off and compact beside the estimator. Random weights; Engram tables
of 4 million rows in pinned memory.

python bench/gpu_slice.py REPORT.json [decode|overlap]      only the decode steps, or only both loops
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from graph_times import GraphTimes

from deepinfer import LLM, SamplingParams
from deepinfer.bench.graph_nodes import count_nodes, kept_graphs
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.worker.cost_report import cost_report
from deepinfer.worker.eager_calls import EagerCalls
from deepinfer.worker.scratch_plan import ScratchPlan
from deepinfer.worker.static_executor import StaticExecutor
from tests.gpu.slice_model import ENGRAM_ROWS, write_slice

PREFILL = 8192
DECODED = 24
REPEATS = 3
BATCHES = (1, 8, 64)
CONTEXT = 2048
STEPS = 20
LOOP_BATCHES = (1, 16, 64)
LOOP_STEPS = 48
SKIPPED = 4  # steps at either end, where prefill and the loop's own begin and end are
OPTIONS: dict[str, Any] = {
    "load_format": "dummy",
    "device": "cuda",
    "kv_cache_bytes": 2**33,
    "max_num_seqs": 64,
    "max_model_len": PREFILL + 64,
    "max_num_batched_tokens": PREFILL,
}


def prompts(count: int, length: int) -> list[list[int]]:
    rng = np.random.default_rng()
    return [rng.integers(300, 100_000, length).tolist() for _ in range(count)]


def seconds(llm: LLM, count: int, length: int, num_tokens: int) -> float:
    """Median time of one call for `count` new prompts."""
    params = SamplingParams(temperature=0, max_tokens=num_tokens, ignore_eos=True)
    times = []
    for _ in range(REPEATS + 1):
        work = prompts(count, length)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        outputs = llm.generate(work, params, use_tqdm=False)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
        assert all(output.error is None for output in outputs), outputs[0].error
    return statistics.median(times[1:])


def forward_times(llm: LLM, batch: int) -> dict[str, float]:
    """A decode step's forward pass alone, at a context of CONTEXT tokens: until the host has handed it over, and until
    the device is through; medians in ms.
    """
    worker, config = llm._runtime.worker, llm.config
    num_lookback = worker.model.runtime.config.engram_max_ngram_size - 1
    token_ids = (np.arange(batch) * 7919 % 100_000).astype(np.int32)
    plan = ScratchPlan.build(token_ids, [1] * batch, CONTEXT, CONTEXT // config.cache.block_size + 1, num_lookback)
    handed, through = [], []
    for _ in range(STEPS + 3):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        worker._runner._executor.forward(plan, np.arange(batch))
        handed.append((time.perf_counter() - begin) * 1e3)
        torch.cuda.synchronize()
        through.append((time.perf_counter() - begin) * 1e3)
    return {"handed_over_ms": statistics.median(handed[3:]), "forward_ms": statistics.median(through[3:])}


def kernels_of_a_step(llm: LLM) -> int:
    """Kernels of the largest captured forward pass."""
    graphs = llm._runtime.worker._runner._executor.decoder.calls._graphs
    key = max(key for key in graphs if key[0] == "decode")
    return count_nodes(graphs[key])["kernel"]


def decode_steps(llm: LLM) -> dict[str, Any]:
    """Whole steps and forward passes alone, per batch, for each way to run them."""
    free = torch.cuda.mem_get_info()[0]
    report: dict[str, Any] = {"graphs": {batch: decode_times(llm, batch) for batch in BATCHES}}
    decoder = llm._runtime.worker._runner._executor.decoder
    report["graphs_mib"] = round((free - torch.cuda.mem_get_info()[0]) / 2**20)
    report["num_graphs"] = decoder.calls.num_graphs
    report["kernels_per_forward"] = kernels_of_a_step(llm)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder, "calls", EagerCalls())
        report["launched_one_by_one"] = {batch: decode_times(llm, batch) for batch in BATCHES}
        patch.setattr(StaticExecutor, "takes", lambda executor, plan: False)
        report["components"] = {batch: decode_times(llm, batch) for batch in BATCHES}
    return report


def decode_times(llm: LLM, batch: int) -> dict[str, float]:
    one, many = (seconds(llm, batch, 32, num) for num in (1, 1 + DECODED))
    return {"step_ms": (many - one) / DECODED * 1e3, **forward_times(llm, batch)}


def generate(llm: LLM, batch: int, num_tokens: int) -> None:
    params = SamplingParams(temperature=0, max_tokens=num_tokens, ignore_eos=True)
    llm.generate(prompts(batch, 32), params, use_tqdm=False, strict=True)


def num_launches(llm: LLM, batch: int, num_tokens: int) -> int:
    """Kernels, graphs and copies that the host hands over for so many new tokens; no draft of random weights counts."""
    with torch.profiler.profile(activities=list(torch.profiler.supported_activities())) as profiler:
        generate(llm, batch, num_tokens)
    names = ("cudaLaunch", "cuLaunch", "cudaGraphLaunch", "cudaMemcpy", "cudaMemset")
    return sum(event.count for event in profiler.key_averages() if event.key.startswith(names))


def loop_times(directory: Path, speculative: str | None, overlap: bool) -> dict[int, dict[str, float]]:
    """Decode steps of one loop, by batch."""
    report = {}
    with LLM(directory, **OPTIONS, speculative=speculative, overlap=overlap) as llm, kept_graphs():
        calls = llm._runtime.worker._runner._executor.decoder.calls
        for batch in LOOP_BATCHES:
            for _ in range(3):  # steps are captured, then started for the first time; drafts find their number
                generate(llm, batch, LOOP_STEPS + 1)
            times, num_graphs = GraphTimes(), calls.num_graphs
            with times.watching(llm):
                generate(llm, batch, LOOP_STEPS + 1)
            found = times.report(calls, SKIPPED)
            found["num_captured"] = calls.num_graphs - num_graphs  # above 0 the figures have captures in them
            few, many = (num_launches(llm, batch, 1 + count) for count in (8, 24))
            found["launches_per_step"] = (many - few) / 16
            report[batch] = found
            texts = [f"{name} {value:.4g}" for name, value in found.items()]
            print(f"overlap {overlap}, drafts {speculative or 'on'}, batch {batch}: {', '.join(texts)}", flush=True)
    return report


def measure(directory: Path, yoco: Any, with_prefill: bool) -> dict[str, Any]:
    begin = time.perf_counter()
    with LLM(directory, **OPTIONS, speculative="off", yoco=yoco) as llm, kept_graphs():
        report: dict[str, Any] = {"yoco": yoco or "off", "load_s": round(time.perf_counter() - begin, 1)}
        report["memory_gib"] = round(torch.cuda.memory_allocated() / 2**30, 1)
        if with_prefill:
            report["prefill_8192_s"] = seconds(llm, 1, PREFILL, 1)
        if yoco is None:
            report["decode"] = decode_steps(llm)
    print(json.dumps(report), flush=True)
    return report


def main(path: Path, part: str) -> None:
    report: dict[str, Any] = {"gpu": torch.cuda.get_device_name(), "engram_rows": ENGRAM_ROWS}
    with tempfile.TemporaryDirectory() as folder:
        directory = write_slice(Path(folder))
        costs = cost_report(DeepSeekV41Config.from_path(directory), PREFILL, 1)
        if part != "decode":
            cases = [(drafts, overlap) for drafts in ("off", None) for overlap in (False, True)]
            report["loops"] = [
                {"speculative": drafts, "overlap": overlap, "batches": loop_times(directory, drafts, overlap)}
                for drafts, overlap in cases
            ]
        modes = {"all": (None, {"mode": "compact"}), "decode": (None,), "overlap": ()}[part]
        report["runs"] = runs = [measure(directory, yoco, part == "all") for yoco in modes]
    if part == "all":
        whole, compact = costs["prefill"], costs["prefill, yoco compact"]
        report |= {
            "yoco_gain": runs[0]["prefill_8192_s"] / runs[1]["prefill_8192_s"],
            "yoco_gain_by_flops": whole.flops / compact.flops,
            "yoco_gain_by_fp8_equivalent_flops": whole.fp8_equivalent_flops / compact.fp8_equivalent_flops,
        }
    print(json.dumps(report), flush=True)
    path.write_text(json.dumps(report, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if sys.argv[2:] else "all")
