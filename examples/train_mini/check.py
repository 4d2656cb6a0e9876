"""Measures an exported checkpoint with the engine: held-out loss, far look-ups without the entries that they need.

    python -m examples.train_mini.check OUT/checkpoint DATA

Exact answers: ``deepinfer eval DATA/eval.jsonl --model OUT/checkpoint``; tokens a step: ``deepinfer bench acceptance``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from deepinfer import LLM, SamplingParams
from deepinfer.bench.answer_rows import answer_rows, read_answer_rows
from deepinfer.engine.runtime import EngineRuntime
from deepinfer.ops.select import select_backend
from deepinfer.ops.selected_backend import SelectedBackend
from examples.train_mini.rows import MUTE


def heldout_losses(llm: LLM, path: Path, num_rows: int) -> dict[str, float]:
    """Nats per token that carries loss, by kind of text; on rows that the trainer kept out."""
    losses = {}
    params = SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=0)
    for kind, rows in np.load(path).items():
        rows = rows[:num_rows]
        outputs = llm.generate([(row[:-1] & (MUTE - 1)).tolist() for row in rows], params, use_tqdm=False)
        total, count = 0.0, 0
        for row, output in zip(rows, outputs, strict=True):
            for place in range(1, len(row) - 1):
                if row[place] & MUTE == 0:
                    entry = output.prompt_logprobs[place][int(row[place])]
                    total, count = total - entry.logprob, count + 1
        losses[kind] = total / max(count, 1)
    return losses


class WindowOnlyLLM(LLM):
    """An engine whose attention sees its window alone: compressed entries are hidden from the op that reads them."""

    def __init__(self, model: Path, **options: Any) -> None:
        self._build_runtime = partial(EngineRuntime.build, choose_backend=_hide_entries)
        super().__init__(model, **options)


def _hide_entries(*selection: Any) -> SelectedBackend:
    chosen = select_backend(*selection)

    def window_alone(*args: Any, **options: Any) -> Any:
        q, window, window_index, _entries, _picks, sink = args
        return chosen.ops.sparse_attention(q, window, window_index, None, None, sink, **options)

    ops = SimpleNamespace(**vars(chosen.ops))
    ops.sparse_attention = window_alone
    return SelectedBackend(chosen.name, ops, chosen.reason, chosen.rejected)


def lookup_hits(directory: Path, path: Path) -> dict[str, str]:
    """Exact answers to far look-ups: as they are, with a smaller choice of entries, and without entries."""
    rows = [row for row in read_answer_rows(path) if row.task == "needle"]
    hits = {}
    with WindowOnlyLLM(directory) as llm:
        hits["window only"] = sum(result.is_exact for result in answer_rows(llm, rows, 16))
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    sizes = [1, 4, config["text_config"]["index_topk"]]
    with tempfile.TemporaryDirectory() as folder:
        for name in (file.name for file in directory.iterdir() if file.is_file()):
            shutil.copy(directory / name, folder)
        for size in sizes:
            config["text_config"]["index_topk"] = size
            (Path(folder) / "config.json").write_text(json.dumps(config), encoding="utf-8")
            with LLM(folder) as llm:
                hits[f"index_topk {size}"] = sum(result.is_exact for result in answer_rows(llm, rows, 16))
    return {name: f"{count} of {len(rows)}" for name, count in hits.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--rows", type=int, default=64, help="held-out rows of each kind")
    arguments = parser.parse_args()
    with LLM(arguments.checkpoint, speculative="off") as llm:
        for kind, loss in heldout_losses(llm, arguments.data / "heldout.npz", arguments.rows).items():
            print(f"held-out {kind}: {loss:.4f} nats a token")
    for name, hits in lookup_hits(arguments.checkpoint, arguments.data / "eval.jsonl").items():
        print(f"look-ups, {name}: {hits}")


if __name__ == "__main__":
    main()
