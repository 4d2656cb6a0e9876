"""Decode steps from static tensors: the same bits as component by component on tensors of each step's own."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from deepinfer import LLM, SamplingParams
from deepinfer.checkpoint.writer import write_random_checkpoint
from deepinfer.core.decode_demand import DecodeDemand
from deepinfer.core.probe import Probe
from deepinfer.distributed.agreed_step import AgreedStep
from deepinfer.worker.eager_calls import EagerCalls
from deepinfer.worker.static_executor import StaticExecutor
from tests.support.golden_case import logprob_matrix
from tests.support.outside_ops import OutsideOps
from tests.support.static_engine import static_engine
from tests.support.tiny_config import tiny_config
from tests.worker.decode_chains import MAX_LEN, plan_of
from tests.worker.linked_model import LinkedModel

VOCAB = 288
PROMPTS = [list(range(3, 3 + length)) for length in (1, 9, 30, 17, 3)]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiny")
    write_random_checkpoint(tiny_config(dspark_target_layer_ids=[7, 2]), path, seed=3)
    return path


class Replayed:
    """See `StaticCalls`. As with CUDA graphs, a key's first work serves all its calls."""

    def __init__(self) -> None:
        self.works: dict[Hashable, Callable[[], None]] = {}

    def run(self, key: Hashable, work: Callable[[], None]) -> None:
        self.works.setdefault(key, work)()


def rows_of(llm: LLM) -> list[torch.Tensor]:
    params = [
        SamplingParams(temperature=0, max_tokens=length, ignore_eos=True, logprobs=-1, prompt_logprobs=-1)
        for length in (14, 9, 12, 5, 14)
    ]
    outputs = llm.generate(PROMPTS, params, use_tqdm=False, strict=True)
    return [logprob_matrix(output, VOCAB) for output in outputs]


@pytest.mark.parametrize("speculative", ["off", {"num_drafts": 3}])
@pytest.mark.parametrize(
    ("backend", "numerics"), [("cpu", "official"), ("cpu", "fp32-quant"), ("cpu", "fp32"), ("reference", "official")]
)
def test_equals_components(
    backend: str, numerics: str, speculative: Any, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C1, C2, Engram, candidates, drafts, prefill between decode steps, fewer sequences towards the end."""
    options = {"max_model_len": 64, "block_size": 4, "max_num_seqs": 6, "max_prefill_chunk": 11}
    with LLM(checkpoint, backend=backend, numerics=numerics, speculative=speculative, **options) as llm:
        expected = rows_of(llm)
    with (
        static_engine(monkeypatch) as steps,
        LLM(checkpoint, backend=backend, numerics=numerics, speculative=speculative, **options) as llm,
    ):
        got = rows_of(llm)
    assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))
    assert steps.num_padded > 0 and steps.num_whole > 0


@pytest.mark.parametrize("numerics", ["official", "fp32"])
def test_linked_plans(numerics: str, checkpoint: Path) -> None:
    """Steps that go on from what is on the device: rejected drafts, ghosts, sequences that come and leave."""
    options = {"numerics": numerics, "max_model_len": MAX_LEN, "block_size": 16, "max_num_seqs": 1}
    with LLM(checkpoint, backend="cpu", speculative={"num_drafts": 3}, **options) as llm:
        model = llm._runtime.worker.model
        for seed in range(6):
            LinkedModel(model, "float32" if numerics == "fp32" else "fp4", EagerCalls()).check_chain(seed, num_links=4)


def test_a_step_without_draft_context(checkpoint: Path) -> None:
    """Hidden states are the same, and the draft model's rings as they were."""
    options = {"numerics": "official", "max_model_len": MAX_LEN, "block_size": 16, "max_num_seqs": 1}
    with LLM(checkpoint, backend="cpu", speculative={"num_drafts": 3}, **options) as llm:
        model = llm._runtime.worker.model
        linked, plan = LinkedModel(model, "fp4", Replayed()), plan_of(np.random.default_rng(0), [9, 30], [1, 0])
        first = model.runtime.config.num_hidden_layers
        rings = [cache.data for layer, cache in linked.decoder._caches.window.items() if layer >= first]
        hidden = []
        for keeps in (False, True):
            step = linked.decoder.forward(replace(plan, keeps_draft_context=keeps))
            hidden.append(step.hidden.clone())
            assert rings and all(bool(ring.any()) == keeps for ring in rings)
    assert torch.equal(*hidden)


def test_ranks_that_keep_draft_context_and_others_run_the_same_graph(checkpoint: Path) -> None:
    """One for all, also of a rank without rows: context is left where any of them keeps it."""
    options = {"numerics": "official", "max_model_len": MAX_LEN, "block_size": 16, "max_num_seqs": 1}
    with LLM(checkpoint, backend="cpu", speculative={"num_drafts": 3}, **options) as llm:
        calls, agreed = Replayed(), AgreedStep()
        linked = LinkedModel(llm._runtime.worker.model, "fp4", calls, agreed)
        keeps, other = (
            replace(plan_of(np.random.default_rng(0), [9], [1]), keeps_draft_context=keeps) for keeps in (True, False)
        )
        for plans in ((other, other), (other, keeps), (keeps, other)):
            agreed.decode = DecodeDemand.largest(DecodeDemand.of(plan) for plan in plans)
            linked.decoder.forward(plans[0])
            linked.decoder.take_part()
        assert len(calls.works) == 2


def test_a_step_is_made_of_ops(checkpoint: Path) -> None:
    """Rows, maps, rotary rows and n-grams come from the ops; what else there is: the transfer of the plan, each
    compressor's unfinished pairs into their ring, and the hidden states where sampling finds them.
    """
    options = {"numerics": "official", "max_model_len": MAX_LEN, "block_size": 16, "max_num_seqs": 1}
    with LLM(checkpoint, backend="reference", speculative="off", **options) as llm:
        model = llm._runtime.worker.model
        decoder = LinkedModel(model, "fp4", EagerCalls()).decoder
        counted = OutsideOps(model.runtime.ops)
        object.__setattr__(model.runtime, "ops", counted.ops)
        plan = plan_of(np.random.default_rng(0), [9, 30], [1, 0])
        with counted:
            decoder.forward(plan)
    num_pairs = sum(layer.ratio == 2 for layer in model.runtime.config.layer_plans if layer.owns_kv)
    assert num_pairs and counted.names == ["copy_", *["stack", "index_put_"] * num_pairs, "copy_"]


def test_hooks_wait_for_an_exact_plan() -> None:
    """Components know nothing of a linked plan's rows, so a hook that comes while one is in flight misses that step."""
    probe = Probe(())
    executor = StaticExecutor(SimpleNamespace(), SimpleNamespace(), probe)
    plans = [SimpleNamespace(kind="decode", previous_step_id=step_id) for step_id in (-1, 4)]
    assert [executor.takes(plan) for plan in plans] == [True, True]
    probe.attach(("*",), SimpleNamespace())
    assert [executor.takes(plan) for plan in plans] == [False, True]
