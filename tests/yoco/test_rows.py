"""Which rows the consumer layers compute, what they see, and that the shared entries are complete."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from deepinfer import LLM
from deepinfer.config.model_config import DeepSeekV41Config
from tests.support.golden_case import GOLDEN
from tests.yoco.runs import assert_same_rows, greedy, prompts_of, run

BASE: dict[str, Any] = {"numerics": "fp32", "max_num_seqs": 16, "max_model_len": 192, "block_size": 4}


@pytest.mark.parametrize("chunk", [1, 16, 192])
def test_consumer_layers_compute_exactly_the_kept_rows(chunk: int, random_model: Path) -> None:
    lengths = [1, 8, 9, 26] if chunk == 1 else [1, 7, 8, 9, 26, 63, 160]
    keep, config = 9, DeepSeekV41Config.from_path(random_model)
    options = {"yoco": {"mode": "compact", "keep_tokens": keep}, "speculative": "off", "max_prefill_chunk": chunk}
    done = run(random_model, prompts_of(lengths, 280), greedy(1), "layers.*", **BASE, **options)
    boundary = config.n_prefill_layer
    assert boundary is not None and 0 < boundary < config.num_hidden_layers
    for length, output in zip(lengths, done.outputs, strict=True):
        for layer in range(config.num_hidden_layers):
            num_rows = length if layer < boundary else min(length, keep)
            for part in ("attn.in", "attn.out", "ffn.in", "ffn.experts", "streams"):
                positions = done.tap.positions(f"layers.{layer}.{part}", output.request_id)
                assert positions.tolist() == list(range(length - num_rows, length)), (layer, part)


def test_rows_given_to_components(random_model: Path) -> None:
    """Counted where the work is done: no placeholder rows; a chunk without kept rows costs the consumers nothing."""
    counts: dict[str, list[int]] = {"layers.4.ffn": [], "layers.5.ffn": [], "layers.7.attn": []}

    def counting(rows: list[int]) -> Any:
        return lambda original, x, ctx: (rows.append(len(x)), original(x, ctx))[1]

    options: dict[str, Any] = {"yoco": "compact", "speculative": "off", "max_prefill_chunk": 10}
    with LLM(random_model, **BASE, **options) as llm:
        stack = [llm.replace(point, counting(rows)) for point, rows in counts.items()]
        for item in stack:
            item.__enter__()
        llm.generate(prompts_of([43], 280), greedy(1), use_tqdm=False)
        for item in reversed(stack):
            item.__exit__(None, None, None)
    assert counts == {"layers.4.ffn": [10, 10, 10, 10, 3], "layers.5.ffn": [5, 3], "layers.7.attn": [5, 3]}


def test_entries_of_all_tokens_and_untouched_encoder(random_model: Path) -> None:
    """Main entries and index keys equal those of the exact model, byte for byte, and so do the encoder's rows."""
    prompts = prompts_of([1, 9, 50, 111], 280)
    caches, runs = [], []
    for yoco in ("off", "compact"):
        options: dict[str, Any] = {"speculative": "off", "yoco": yoco, "max_prefill_chunk": 13}
        with LLM(random_model, **BASE, **options) as llm, llm.capture("layers.[0-4].*") as tap:
            outputs = llm.generate(prompts, greedy(1), use_tqdm=False)
            runner = llm._runtime.worker._runner
            assert runner is not None
            caches.append({(k, i): c.data for k in ("main", "index") for i, c in getattr(runner._caches, k).items()})
            runs.append((outputs, tap))
    assert caches[0].keys() == caches[1].keys() and len(caches[0]) == 4
    for key, data in caches[0].items():
        assert torch.equal(data, caches[1][key]), key
    for name in runs[0][1].names():
        for off, compact in zip(runs[0][0], runs[1][0], strict=True):
            assert torch.equal(runs[0][1].tensor(name, off.request_id), runs[1][1].tensor(name, compact.request_id))


def test_windows_are_cut_at_the_boundary_and_nowhere_else(random_model: Path) -> None:
    """In the first consumer layer a row differs from the exact model exactly where its window reaches unkept rows."""
    window, keep, length = 8, 20, 60
    options: dict[str, Any] = {"speculative": "off", **BASE}
    prompts, name = prompts_of([length], 280), "layers.5.attn.out"
    off = run(random_model, prompts, greedy(1), name, **options)
    cut = run(random_model, prompts, greedy(1), name, yoco={"mode": "compact", "keep_tokens": keep}, **options)
    (mine,), (theirs,) = cut.tap[name].values(), off.tap[name].values()
    same = (mine == theirs[length - keep :]).all(dim=1).numpy()
    assert same.tolist() == [False] * (window - 1) + [True] * (keep - window + 1)


def test_features_on_the_encoder_side_are_those_of_all_rows(tmp_path: Path) -> None:
    """Draft targets before the boundary: the draft model's context is that of the exact model."""
    from deepinfer.checkpoint.writer import write_random_checkpoint
    from tests.support.tiny_config import tiny_config

    write_random_checkpoint(tiny_config(dspark_target_layer_ids=[2, 4]), tmp_path, seed=5)
    prompts, rings = prompts_of([30, 9], 280), []
    for yoco in ("off", "mask", "compact"):
        with LLM(tmp_path, yoco=yoco, max_prefill_chunk=12, **BASE) as llm:
            llm.generate(prompts, greedy(1), use_tqdm=False)
            runner = llm._runtime.worker._runner
            assert runner is not None
            rings.append(torch.stack([runner._caches.window[8 + stage].data for stage in range(3)]))
    assert np.count_nonzero(rings[0].numpy())
    assert torch.equal(rings[0], rings[1]) and torch.equal(rings[0], rings[2])


@pytest.mark.parametrize("numerics", ["fp32", "official"])
def test_masked_rows_match_whatever_the_chunks(numerics: str) -> None:
    options: dict[str, Any] = {**BASE, "numerics": numerics, "speculative": "off", "yoco": "mask"}
    prompts, names = prompts_of([33, 90], 500), ("layers.*.streams",)
    whole = run(GOLDEN / "nano-s1", prompts, greedy(2), *names, **options)
    assert_same_rows(run(GOLDEN / "nano-s1", prompts, greedy(2), *names, max_prefill_chunk=7, **options), whole)
