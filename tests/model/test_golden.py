"""The whole model through the public API against golden data of an independent implementation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import pytest
import torch

from deepinfer import LLM, RequestOutput
from tests.support.golden_case import CASES, GoldenCase, logprob_matrix, run_case

PLAIN = [name for name in CASES if "-plain-" in name]
ROUNDING = [name for name in CASES if "-rounding-" in name]
VOCAB = 512
BACKENDS = ("reference", "cpu", pytest.param("cuda", marks=pytest.mark.gpu))

# One value lies 7e-8 below a rounding edge there. The native kernels land above it, and the flip reaches a window of 16
# of the 29 positions, so that the median is not sharp.
ON_AN_EDGE = ("cpu", "pair-calm-s2-rounding-robust24")

Engines: TypeAlias = dict[tuple[str, str, str], LLM]


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    """Engines by (checkpoint, numerics, backend), started on first use."""
    started: Engines = {}
    yield started
    for llm in started.values():
        llm.close()


def engine_for(engines: Engines, case: GoldenCase, numerics: str, backend: str) -> LLM:
    key = (str(case.checkpoint), numerics, backend)
    if key not in engines:
        options = {"max_num_seqs": 4, "max_model_len": 256, "kv_cache_bytes": 2**26}
        engines[key] = LLM(case.checkpoint, numerics=numerics, backend=backend, **options)
    return engines[key]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PLAIN)
def test_fp32_matches_plain(name: str, backend: str, engines: Engines) -> None:
    case = GoldenCase.load(name)
    llm = engine_for(engines, case, "fp32", backend)
    with llm.capture("layers.*", "final.hidden") as tap:
        output = run_case(llm, case)
    assert_hooks_change_nothing(llm, case, output)

    sharp = case.sharp_positions()
    got = logprob_matrix(output, VOCAB)
    assert got.shape[0] == case.num_positions
    torch.testing.assert_close(got[:sharp], case.expected_logprobs()[:sharp], atol=5e-4, rtol=0)
    assert output.outputs[0].token_ids == case.greedy
    expected = {name: tensor for name, tensor in case.tensors.items() if name.startswith(("layers.", "final."))}
    assert any(name.endswith(".index.picks") for name in expected)
    assert set(expected) <= set(tap.names()), f"not captured: {sorted(set(expected) - set(tap.names()))}"
    for record, want in expected.items():
        found = tap.tensor(record, output.request_id)
        assert tap.positions(record, output.request_id).tolist() == list(range(case.num_positions)), record
        if record.endswith((".experts", ".picks", ".blocks")):
            assert_same_choice(found, want, case, record)
        else:
            torch.testing.assert_close(found[:sharp].float(), want[:sharp], atol=5e-4, rtol=5e-4, msg=record)


def assert_same_choice(found: torch.Tensor, expected: torch.Tensor, case: GoldenCase, record: str) -> None:
    """Chosen ids are equal at every position whose stated margin exceeds 1e-5 (and lies before the first near tie)."""
    margin_name = record.replace(".experts", ".margin").replace(".picks", ".margin").replace(".blocks", ".block_margin")
    margin = case.tensors[margin_name]
    clear = (margin > 1e-5) & (torch.arange(len(margin)) < case.sharp_positions())
    width = min(found.shape[1], expected.shape[1])
    assert torch.equal(found[clear][:, :width], expected[clear][:, :width]), record
    assert (found[clear][:, width:] == -1).all(), record


def assert_hooks_change_nothing(llm: LLM, case: GoldenCase, hooked: RequestOutput) -> None:
    """What runs without hooks (the native model, where there is one) gives the same bits."""
    plain = run_case(llm, case)
    assert plain.outputs[0].token_ids == hooked.outputs[0].token_ids
    assert torch.equal(logprob_matrix(plain, VOCAB), logprob_matrix(hooked, VOCAB))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ROUNDING)
def test_fp32_quant_matches_rounding(name: str, backend: str, engines: Engines, request: pytest.FixtureRequest) -> None:
    """Medians are sharp; a single value on a rounding edge may flip and spread (README of the golden data)."""
    if (backend, name) == ON_AN_EDGE:
        request.applymarker(pytest.mark.xfail(strict=True, reason="a value on a rounding edge flips"))
    case = GoldenCase.load(name)
    llm = engine_for(engines, case, "fp32-quant", backend)
    with llm.capture("layers.0.*", "final.hidden") as tap:
        output = run_case(llm, case)
    assert_hooks_change_nothing(llm, case, output)
    difference = (logprob_matrix(output, VOCAB) - case.expected_logprobs()).abs().amax(dim=1)
    assert difference.median() < 1e-5 * 12, name
    hidden = tap.tensor("layers.0.attn.in", output.request_id)
    if "layers.0.attn.in" in case.tensors:
        torch.testing.assert_close(hidden, case.tensors["layers.0.attn.in"], atol=1e-5, rtol=1e-5)
