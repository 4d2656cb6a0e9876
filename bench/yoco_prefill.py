"""What YOCO prefill costs and gains on the bundled model: look-ups solved per mode, and CPU time of a long prefill.

The other evaluation prompts are shorter than a window, so all modes answer them alike. One thread.

python bench/yoco_prefill.py [--length 2048] [--repeats 2]
"""

from __future__ import annotations

import argparse
import json
import time
from importlib.resources import files
from typing import Any

import numpy as np
import torch

from deepinfer import LLM, SamplingParams

SEED = 11


def evaluation_rows() -> list[dict[str, Any]]:
    lines = (files("deepinfer") / "data/mini/eval.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def solved(yoco: Any) -> tuple[int, int]:
    """(solved, rows) of the look-ups: greedy text equal to the answer and ended by the stop token."""
    rows = [row for row in evaluation_rows() if row["task"] == "needle"]
    with LLM(yoco=yoco, max_model_len=1024, max_num_seqs=32) as llm:
        outputs = llm.generate([row["prompt"] for row in rows], SamplingParams(temperature=0, max_tokens=16))
    hits = [
        output.outputs[0].text == row["answer"] and output.outputs[0].finish_reason == "stop"
        for row, output in zip(rows, outputs, strict=True)
    ]
    return sum(hits), len(hits)


def prefill_seconds(yoco: Any, length: int, repeats: int) -> tuple[float, float]:
    """(best, median) CPU seconds of a prompt of `length` random ids with one token behind it, drafts off."""
    prompt = np.random.default_rng(SEED).integers(14, 4000, length).tolist()
    with LLM(yoco=yoco, max_model_len=length + 8, max_num_seqs=1, speculative="off") as llm:
        times = []
        for _ in range(repeats + 1):
            start = time.process_time()
            llm.generate([prompt], SamplingParams(temperature=0, max_tokens=1), use_tqdm=False)
            times.append(time.process_time() - start)
    return min(times[1:]), float(np.median(times[1:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--skip-evaluation", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for yoco in ("off", "mask", "compact"):
        best, median = prefill_seconds(yoco, arguments.length, arguments.repeats)
        print(f"{yoco}: prefill of {arguments.length} tokens: best {best:.3f} s, median {median:.3f} s")
    if not arguments.skip_evaluation:
        for option in ("off", "compact", {"mode": "compact", "keep_tokens": 128}):
            print(f"{option}: solved %d of %d look-ups" % solved(option))


if __name__ == "__main__":
    main()
