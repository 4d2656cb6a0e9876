"""Runs every GPU test, file by file, and writes a JSON report: python tests/gpu/run_all.py REPORT.json [FILE...].

With --multigpu before the report's name the tests of several GPUs instead, on as many as there are; with --within=200
no file runs on when so many seconds are over. Of a file that is stopped the report has the tests that had ended.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 240  # of a file
STOP_S = 20  # that a file gets to write down what has ended
NUM_PARALLEL = 5  # a file takes less than 40 GB; kernels that are not in the cache compile side by side
ELSEWHERE = (
    "tests/model/test_golden.py",
    "tests/model/test_official_layers.py",
)  # files that have GPU cases beside those of a CPU
LONGEST = "test_worlds.py"  # of several GPUs: last, as it may be cut off
ALONE = ("tests/gpu/test_close.py", "tests/gpu/test_scratch.py")  # they count the GPU's free memory


def main(words: argparse.Namespace) -> int:
    marker, report, end = "multigpu" if words.multigpu else "gpu", words.report, time.time() + words.within
    files = words.files or files_of(marker)
    outcomes: list[dict[str, Any]] = []
    alone = [path for path in files if str(path.resolve().relative_to(ROOT)) in ALONE]
    num_side_by_side = NUM_PARALLEL if marker == "gpu" else 1  # ranks that wait for each other take the GPUs' time
    for group, num_parallel in (([path for path in files if path not in alone], num_side_by_side), (alone, 1)):
        with ThreadPoolExecutor(num_parallel) as pool:
            runs = [pool.submit(run_file, path.resolve(), marker, end) for path in group]
            for run in as_completed(runs):
                outcomes.append(run.result())
                show(outcomes[-1])
                write_report(report, outcomes)
    return 1 if failed_files(outcomes) else 0


def files_of(marker: str) -> list[Path]:
    if marker == "multigpu":
        found = (ROOT / "tests/distributed/multigpu").glob("test_*.py")
        return sorted(found, key=lambda path: (path.name == LONGEST, path.name))
    return [*sorted(Path(__file__).parent.rglob("test_*.py")), *(ROOT / name for name in ELSEWHERE)]


def write_report(report: Path, outcomes: list[dict[str, Any]]) -> None:
    result = {"gpu": gpu(), "num_gpus": torch.cuda.device_count(), "torch": torch.__version__}
    result |= {"failed": failed_files(outcomes), "files": outcomes}
    report.write_text(json.dumps(result, indent=1), encoding="utf-8")


def failed_files(outcomes: list[dict[str, Any]]) -> list[str]:
    return [outcome["file"] for outcome in outcomes if outcome["exit_code"] not in (0, 5)]


def show(outcome: dict[str, Any]) -> None:
    """One line for a file, and one for each of its failures."""
    tests = outcome["tests"]
    passed = sum(test["outcome"] == "passed" for test in tests)
    name, code, seconds = outcome["file"], outcome["exit_code"], outcome["seconds"]
    print(f"{name:56} {passed}/{len(tests)} passed, exit {code}, {seconds} s", flush=True)
    if code not in (0, 1, 5):
        print(outcome["output"][-600:], flush=True)
    for test in tests:
        if test["outcome"] == "failed":
            print(f"    {test['name']}: {test['message'][:300]}", flush=True)


def run_file(path: Path, marker: str, end: float) -> dict[str, Any]:
    """One pytest process for one file, so that an illegal access harms no other. `end`: of all files."""
    begin, name = time.time(), str(path.relative_to(ROOT))
    xml = Path(tempfile.gettempdir()) / f"gpu-{path.stem}.xml"
    xml.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-v", "--durations=5", "-m", marker]
    command += ["-o", "addopts=", "-p", "no:cacheprovider", f"--junitxml={xml}", name]
    exit_code, output = run_within(command, max(1.0, min(TIMEOUT_S, end - begin)))
    tests = read_tests(xml) if xml.exists() else []
    seconds = round(time.time() - begin, 1)
    return {"file": name, "exit_code": exit_code, "seconds": seconds, "tests": tests, "output": output}


def run_within(command: list[str], seconds: float) -> tuple[int, str]:
    """Exit code, -1 for a command that was stopped, and the end of what it said."""
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        output, _ = process.communicate(timeout=seconds)
        return process.returncode, output[-6000:]
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
    try:
        output, _ = process.communicate(timeout=STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
    return -1, f"stopped after {seconds:.0f} s: {output[-6000:]}"


def read_tests(xml: Path) -> list[dict[str, Any]]:
    tests = []
    for case in ElementTree.parse(xml).iter("testcase"):
        failure = next((part for part in case if part.tag in ("failure", "error")), None)
        outcome = "failed" if failure is not None else "skipped" if case.find("skipped") is not None else "passed"
        message = "" if failure is None else (failure.get("message") or "") + "\n" + (failure.text or "")[-1500:]
        tests.append({"name": case.get("name"), "outcome": outcome, "message": message, "seconds": case.get("time")})
    return tests


def gpu() -> str:
    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none"


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--multigpu", action="store_true")
    parser.add_argument("--within", type=float, default=float("inf"), help="seconds for all files")
    return parser.parse_intermixed_args(arguments)


if __name__ == "__main__":
    if not torch.cuda.is_available():
        sys.exit(f"torch sees no GPU here (torch {torch.__version__})")
    sys.exit(main(parsed(sys.argv[1:])))
