"""Small cases of every kernel under compute-sanitizer: python tests/gpu/sanitize.py REPORT.json [memcheck|racecheck].

memcheck takes small cases of every family but quantizers, sampling and row gathers; racecheck the three most pipelined
kernels (products of tiles, grouped expert products, attention).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 100
NUM_PARALLEL = 8
CASES = {
    "memcheck": [
        ("attention/test_sparse_attention.py", "test_odd_numbers_of_keys"),
        ("cache/test_store_vectors.py", "test_bytes_in_the_cache and 7]"),
        ("compress/test_compress_pairs.py", "7-"),
        ("engram/test_engram.py", "test_gate or test_row_numbers"),
        ("gemm/test_quantized_linear.py", "test_odd_size and (9 or 65)"),
        ("gemm/test_linear.py", "test_small and (9 or 131)"),
        ("gemm/test_rotate_grouped_linear.py", "test_small and (9 or 65)"),
        ("hyper_connection/test_hyper_connection.py", "2-1120-9 or 3-1120-9"),
        ("index/test_select_entries.py", "mini"),
        ("moe/test_moe.py", "test_all_rows_to_the_same_experts"),
        ("norm/test_rms_norm.py", ""),
        ("rope/test_apply_rope.py", ""),
    ],
    "racecheck": [
        ("attention/test_sparse_attention.py", "test_odd_numbers_of_keys and (65 or 128)"),
        ("gemm/test_quantized_linear.py", "test_odd_size and 65"),
        ("moe/test_moe.py", "test_all_rows_to_the_same_experts"),
    ],
}


def main(report: Path, tools: list[str]) -> int:
    if shutil.which("compute-sanitizer") is None:
        print("compute-sanitizer (of the CUDA toolkit) is not on the PATH")
        return 2
    work = [(tool, *case) for tool in tools or list(CASES) for case in CASES[tool]]
    with ThreadPoolExecutor(NUM_PARALLEL) as pool:
        outcomes = list(pool.map(lambda item: run(*item), work))
    report.write_text(json.dumps(outcomes, indent=1), encoding="utf-8")
    return int(any(outcome["exit_code"] for outcome in outcomes))


def run(tool: str, name: str, wanted: str) -> dict[str, Any]:
    """One file under one tool; the sanitizer's own errors give exit code 86."""
    begin = time.time()
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "86", "--target-processes", "all"]
    command += [sys.executable, "-m", "pytest", "-q", "-x", "-m", "gpu", "-o", "addopts=", "-p", "no:cacheprovider"]
    command += [f"tests/gpu/{name}", "-k", wanted]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S)
        code, output = done.returncode, done.stdout[-3000:] + done.stderr[-1000:]
    except subprocess.TimeoutExpired:
        code, output = -1, f"ran for more than {TIMEOUT_S} s"
    summary = next((line for line in output.splitlines() if "ERROR SUMMARY" in line or "RACECHECK" in line), "")
    print(f"{tool:10} {name:44} exit {code}, {time.time() - begin:.0f} s {summary}", flush=True)
    return {"tool": tool, "file": name, "cases": wanted, "exit_code": code, "output": output}


if __name__ == "__main__":
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= set(CASES):
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
