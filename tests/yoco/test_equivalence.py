"""Mask and compact give the same bits on kept rows and in all later decoding; off is the exact model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deepinfer import SamplingParams
from deepinfer.checkpoint.writer import write_random_checkpoint
from tests.support.golden_case import GOLDEN
from tests.support.random_config import random_config
from tests.yoco.runs import Run, assert_same_rows, assert_same_texts, greedy, prompts_of, run

CHUNKS = (1, 2, 3, 5, 7, 8, 16, 64)
WINDOWS = {"nano-s1": 16, "bare-s4": 16, "pair-calm-s2": 16, "random": 8, "bundled": 64}
RECORDS = ("layers.*.streams", "layers.*.index.picks", "layers.*.index.blocks", "layers.*.ffn.experts", "final.hidden")
BASE: dict[str, Any] = {"max_num_seqs": 16, "block_size": 4}


def lengths(window: int) -> list[int]:
    """From one token to 20 windows, with every edge of a window between them."""
    return [1, window - 1, window, window + 1, 2 * window + 1, 5 * window - 3, 20 * window]


def model_of(name: str, random_model: Path) -> tuple[Path | None, int]:
    """Path and vocabulary to draw from."""
    if name in ("random", "bundled"):
        return {"random": random_model, "bundled": None}[name], 280
    return GOLDEN / name, 500


def equal_in_both_modes(
    model: Path | None, prompts: list[list[int]], params: SamplingParams, chunks: tuple[int, ...], **options: Any
) -> tuple[Run, Run]:
    """(masked, compact) runs; compact ones of all chunk sizes are compared with one masked run in whole prompts."""
    masked = run(model, prompts, params, *RECORDS, yoco="mask", **BASE, **options)
    for chunk in chunks:
        compact = run(model, prompts, params, *RECORDS, yoco="compact", max_prefill_chunk=chunk, **BASE, **options)
        assert_same_texts(compact, masked)
        assert_same_rows(compact, masked)
    return masked, compact


@pytest.mark.parametrize(
    ("name", "chunks", "numerics"),
    [("random", (7,), "fp32"), ("random", (64,), "official"), ("nano-s1", (64,), "fp32-quant")],
)
def test_mask_equals_compact(name: str, chunks: tuple[int, ...], numerics: str, random_model: Path) -> None:
    model, vocab = model_of(name, random_model)
    window = WINDOWS[name]
    prompts = prompts_of(lengths(window), vocab)
    options: dict[str, Any] = {"numerics": numerics, "max_model_len": 20 * window + 8, "speculative": "off"}
    masked, compact = equal_in_both_modes(model, prompts, greedy(2), chunks, **options)
    off = run(model, prompts, greedy(2), *RECORDS, **BASE, **options)
    for output, want in zip(masked.outputs, off.outputs, strict=True):  # nothing is cut from prompts within the window
        if len(output.prompt_token_ids) <= window:
            assert output.outputs[0].logprobs == want.outputs[0].logprobs
    assert first_logprobs(masked) != first_logprobs(off), "long prompts have to differ from the exact model"


def first_logprobs(run: Run) -> list[float]:
    """Cumulative log-probability of each output."""
    return [output.outputs[0].cumulative_logprob or 0.0 for output in run.outputs]


@pytest.mark.parametrize("seed", [18, 22, 30])
def test_random_configs(seed: int, tmp_path: Path) -> None:
    config = random_config(seed)
    assert 1 in config["text_config"]["compress_ratios"]
    write_random_checkpoint(config, tmp_path, seed=seed)
    equal_in_both_modes(tmp_path, prompts_of([1, 9, 30, 61], 280), greedy(3), (5,), numerics="fp32", max_model_len=72)


def test_keeping_more_tokens(random_model: Path) -> None:
    options: dict[str, Any] = {"numerics": "fp32", "speculative": "off", "max_model_len": 96, **BASE}
    prompts = prompts_of([30, 77], 280)
    runs = {
        mode: run(random_model, prompts, greedy(3), *RECORDS, yoco={"mode": mode, "keep_tokens": 29}, **options)
        for mode in ("mask", "compact")
    }
    assert_same_texts(runs["compact"], runs["mask"])
    assert_same_rows(runs["compact"], runs["mask"])
    assert len(runs["compact"].tap.positions("layers.7.streams", runs["compact"].outputs[1].request_id)) == 29 + 2
    whole = {"mode": "compact", "keep_tokens": 77}
    assert_same_texts(
        run(random_model, prompts, greedy(3), yoco=whole, **options), run(random_model, prompts, greedy(3), **options)
    )


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("numerics", ["fp32", "fp32-quant", "official"])
@pytest.mark.parametrize("name", ["random", "nano-s1", "bare-s4", "pair-calm-s2", "bundled"])
def test_whole_matrix(name: str, numerics: str, random_model: Path) -> None:
    """Every chunk size; the bundled model in every third only, its prompts are long."""
    model, vocab = model_of(name, random_model)
    window = WINDOWS[name]
    prompts = prompts_of(lengths(window), vocab)
    chunks = (5, 16, 64) if name == "bundled" else CHUNKS
    options: dict[str, Any] = {"numerics": numerics, "max_model_len": 20 * window + 8, "speculative": "off"}
    equal_in_both_modes(model, prompts, greedy(6), chunks, **options)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_many_random_configs(seed: int, tmp_path: Path) -> None:
    if 1 not in random_config(seed)["text_config"]["compress_ratios"]:
        pytest.skip("this layout has no consumer layers")
    test_random_configs(seed, tmp_path)
