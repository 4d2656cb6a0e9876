"""Which ops a step calls, by rows, and how many kernels its graphs have."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from deepinfer.bench.cuda_op_figures import CudaOpFigures
from deepinfer.bench.cuda_step_ops import step_ops
from deepinfer.bench.machine_limits import MachineLimits
from deepinfer.bench.model_cases import model_cases
from deepinfer.bench.op_call import OpCall
from deepinfer.bench.op_figures import OpFigures
from deepinfer.bench.random_operands import RandomOperands
from deepinfer.bench.sampler_cases import sampler_cases
from deepinfer.bench.spread import Spread
from deepinfer.bench.step_calls import StepCalls, decode_calls, prefill_calls
from deepinfer.bench.step_kernels import StepKernels
from deepinfer.bench.step_op import StepOp
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.sampling.draw_kinds import DrawKinds
from deepinfer.sampling.row_words import RowWords
from tests.support.golden_case import GOLDEN

FULL = DeepSeekV41Config.from_path(GOLDEN.parents[1] / "deepinfer/data/configs/deepseek-v41-flash.json")
CASES = model_cases(FULL, RandomOperands(torch.device("cpu"), 1), context_len=9)


def test_a_step_without_drafts_is_one_part() -> None:
    (part,) = decode_calls(CASES, FULL, 64, 0)
    assert (part.rows, part.rows_per_seq) == (64, 1)
    assert part.calls["moe", "experts"] == 40 and part.calls["engram_lookup", "device table"] == 2
    assert not any("draft" in use or "prefill" in use for _, use in part.calls)


def test_a_draft_pass_has_its_own_rows() -> None:
    target, block, loop = decode_calls(CASES, FULL, 64, 5)
    assert [(part.rows, part.rows_per_seq) for part in (target, block, loop)] == [(384, 6), (320, 5), (64, 1)]
    assert target.calls["quantized_linear", "window vector"] == 43 and target.calls["moe", "experts"] == 40
    assert target.calls["hc_read", "stream mean, for drafts"] == 3
    assert block.calls["moe", "draft experts"] == block.calls["quantized_linear", "output up"] == 3
    assert block.calls["linear", "head"] == 1 and loop.calls == {("linear", "draft Markov head"): 5}


def test_a_prefill_samples_one_row() -> None:
    layers, head = prefill_calls(CASES, 8192)
    assert layers.rows == 8192 and head.rows == 1 and head.calls["linear", "head"] == 1
    assert ("linear", "head") not in layers.calls and layers.calls["moe", "experts"] == 40


def test_ops_of_a_step_are_looked_up_by_rows() -> None:
    spread = {"cuda": Spread.of([5e-6])}
    item = CudaOpFigures(OpFigures(8, "moe", "", 40, 4_000, None, spread), "experts", 1, True, True, "")
    parts = [
        StepCalls(8, 2, {("moe", "experts"): 7, ("moe", "that failed"): 1}),
        StepCalls(8, 1, {("moe", "experts"): 1}),
    ]
    (found,) = step_ops(parts, {(8, 2, ("moe", "experts")): item}, MachineLimits(4e9, 1e9))
    assert found == StepOp("moe", "experts", 8, 7, 5e-6, pytest.approx(4e-6))


def test_a_step_op_is_read_as_it_is_written() -> None:
    op = StepOp("moe", "experts", 8, 7, 5e-6, 4e-6)
    assert StepOp.parse(op.to_dict()) == StepOp("moe", "experts", 8, 7, pytest.approx(5e-6), pytest.approx(4e-6))
    with pytest.raises(ValueError, match="whole numbers"):
        StepOp.parse(op.to_dict() | {"rows": 0})


def test_kernels_are_those_of_the_smallest_graph_that_fits() -> None:
    kinds = object()
    graphs = {
        ("decode", 8, 512, False): 300,
        ("decode", 64, 512, False): 320,
        ("decode", 64, 1024, False): 999,
        ("sample", 64, kinds): 9,
        ("draft", 16, kinds): 150,
    }
    found = StepKernels.of(graphs, 33, 8, lambda kernels: kernels)
    assert found == StepKernels(320, 9, 150, 8) and found.per_layer == 40
    assert StepKernels.of(graphs | {("decode", 64, 512, False): None}, 33, 8, lambda kernels: kernels).forward == 999
    assert StepKernels.of(graphs, 65, 8, lambda kernels: kernels) is None


@pytest.mark.parametrize(("kinds", "passes"), [((False, False), 1), ((True, False), 2), ((True, True), 3)])
def test_passes_of_the_sampler_over_its_logits(kinds: tuple[bool, bool], passes: int) -> None:
    logits, words, tokens = torch.zeros(3, 100), torch.zeros(3, 7, dtype=torch.int64), torch.zeros(3, dtype=torch.int64)
    call = OpCall("sample_rows", (logits, RowWords(words, DrawKinds(*kinds)), 100), {}, tokens)
    assert call.num_bytes == passes * 1200 + 3 * 7 * 8 + 3 * 8


def test_rows_for_the_sampler() -> None:
    config = SimpleNamespace(vocab_size=1000)
    kinds = []
    for case in sampler_cases(config, RandomOperands(torch.device("cpu"), 1)):
        (logits, rules, num_ids), options = case.prepare()(4)
        assert logits.shape == (4, 1000) and rules.words.shape == (4, 7) and num_ids == 1000 and not options
        likely = torch.softmax(logits / 0.8, dim=1).sort(dim=1, descending=True).values
        assert (likely[:, :16].sum(dim=1) > 0.9).all()
        kinds.append((case.use, rules.kinds.draws, rules.kinds.filters, case.count))
    assert kinds[0] == ("greedy", False, False, 1) and kinds[2] == ("top-p", True, True, 0)
