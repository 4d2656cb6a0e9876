"""A slice of V4.1-Flash at true layer shapes on one GPU: loading, decoding at batch 1 and 64, a prefill of 8,192 tokens
with YOCO off and compact beside the estimator. Random weights; Engram tables of 4 million rows in pinned memory.

python bench/gpu_slice.py REPORT.json
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
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from deepinfer import LLM, SamplingParams
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.worker.cost_report import cost_report
from tests.gpu.slice_model import ENGRAM_ROWS, write_slice

PREFILL = 8192
DECODED = 24
REPEATS = 3


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


def measure(directory: Path, yoco: Any) -> dict[str, Any]:
    begin = time.perf_counter()
    options = {"max_num_seqs": 64, "max_model_len": PREFILL + 64, "max_num_batched_tokens": PREFILL}
    llm = LLM(
        directory, load_format="dummy", device="cuda", kv_cache_bytes=2**33, speculative="off", yoco=yoco, **options
    )
    with llm:
        report: dict[str, Any] = {"yoco": yoco or "off", "load_s": round(time.perf_counter() - begin, 1)}
        report["memory_gib"] = round(torch.cuda.memory_allocated() / 2**30, 1)
        report["prefill_8192_s"] = seconds(llm, 1, PREFILL, 1)
        if yoco is None:
            for batch in (1, 64):
                one, many = (seconds(llm, batch, 32, num) for num in (1, 1 + DECODED))
                report[f"decode_step_ms_batch_{batch}"] = (many - one) / DECODED * 1e3
    print(json.dumps(report), flush=True)
    return report


def main(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        directory = write_slice(Path(folder))
        costs = cost_report(DeepSeekV41Config.from_path(directory), PREFILL, 1)
        runs = [measure(directory, yoco) for yoco in (None, {"mode": "compact"})]
    whole, compact = costs["prefill"], costs["prefill, yoco compact"]
    report = {
        "gpu": torch.cuda.get_device_name(),
        "engram_rows": ENGRAM_ROWS,
        "runs": runs,
        "yoco_gain": runs[0]["prefill_8192_s"] / runs[1]["prefill_8192_s"],
        "yoco_gain_by_flops": whole.flops / compact.flops,
        "yoco_gain_by_fp8_equivalent_flops": whole.fp8_equivalent_flops / compact.fp8_equivalent_flops,
    }
    print(json.dumps(report), flush=True)
    path.write_text(json.dumps(report, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
