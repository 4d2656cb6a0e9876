"""Draft logits, Markov-adjusted logits and confidence scores against golden data of an independent implementation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from deepinfer._C import Scheduler, SchedulerConfig, SequenceSpec
from deepinfer.checkpoint.reader import CheckpointReader
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.config.numerics import Numerics
from deepinfer.core.draft_executor import DraftExecutor
from deepinfer.core.draft_requests import DraftRequests
from deepinfer.core.probe import Probe
from deepinfer.models.deepseek_v41.model import DeepSeekV41Model
from deepinfer.models.deepseek_v41.runtime import ModelRuntime
from deepinfer.ops.select import SelectedBackend, select_backend
from deepinfer.sampling.sampler import Sampler
from deepinfer.text.vocabulary_map import compressed_vocabulary
from deepinfer.worker.executors import Executors
from deepinfer.worker.kv_cache import allocate_caches, cache_table
from deepinfer.worker.token_samplers import token_sampler
from tests.support.golden_case import GOLDEN

CASES = json.loads((GOLDEN / "draft_cases.json").read_text())
CHECKPOINT = GOLDEN / "nano-s1"
CPU = torch.device("cpu")


@pytest.fixture(scope="module", params=["reference", "cpu"])
def backend(request: pytest.FixtureRequest) -> SelectedBackend:
    return select_backend(request.param, "cpu")


@pytest.fixture(scope="module")
def model(backend: SelectedBackend) -> DeepSeekV41Model:
    config = DeepSeekV41Config.from_path(CHECKPOINT)
    runtime = ModelRuntime(config, backend.ops, Numerics.FP32, max_positions=256)
    vocabulary = compressed_vocabulary(CHECKPOINT / "tokenizer.json", config.vocab_size, config.engram_pad_token_id)
    with CheckpointReader(CHECKPOINT) as reader:
        return DeepSeekV41Model(runtime, reader, CPU, torch.from_numpy(vocabulary), with_drafts=True)


def executors_after(
    model: DeepSeekV41Model, backend: SelectedBackend, tokens: np.ndarray, num_drafts: int, chunk: int
) -> tuple[DraftExecutor, int]:
    """Who runs the drafts after a prefill of `tokens` in chunks, and the sequence's state slot."""
    config = DeepSeekV41Config.from_path(Path(CHECKPOINT))
    caches = allocate_caches(cache_table(config, Numerics.FP32, "auto", 128, num_drafts), 4, 2)
    sampler = token_sampler(backend, Sampler(config.vocab_size), CPU, None)
    executors = Executors.build(backend, model, caches, sampler, Probe())
    num_lookback = config.engram_max_ngram_size - 1
    sizes = (4, 128, 2, 1, 256, chunk, 256, num_lookback)
    scheduler = Scheduler(SchedulerConfig(*sizes, num_drafts=num_drafts))  # so that steps leave drafts their context
    scheduler.add(SequenceSpec(0, tokens, 1, []))
    while True:
        plan = scheduler.schedule()
        executors.target.forward(plan, np.array([0]))
        if plan.samples[0]:
            assert executors.draft is not None
            return executors.draft, int(plan.state_slots[0])
        scheduler.update(plan.step_id, [], [0, 0])


@pytest.mark.parametrize("chunk", [256, 3])
@pytest.mark.parametrize("name", CASES)
def test_blocks(name: str, chunk: int, model: DeepSeekV41Model, backend: SelectedBackend) -> None:
    """Base logits depend on the committed tokens and the anchor only, so any route to them will do."""
    golden = load_file(GOLDEN / f"{name}.draft.safetensors")
    tokens = golden["tokens"].int().numpy()
    num_blocks, num_drafts = golden["drafted"].shape
    for n in range(0, num_blocks, 1 if chunk == 256 else 3):
        committed, anchor = int(golden["committed"][n]), golden["anchor"][n : n + 1]
        draft, slot = executors_after(model, backend, tokens[:committed], num_drafts, chunk)
        draft.run(DraftRequests([0], anchor.tolist(), [committed - 1], [slot], [0]), num_drafts)
        for forced, prefix in ((golden["drafted"][n], ""), (golden["forced_ids"][n], "forced_")):
            previous = torch.cat((anchor, forced[:-1]))
            for k in range(num_drafts):
                logits, score = draft.adjust(k, previous[k : k + 1].numpy())
                adjusted = torch.as_tensor(logits)
                torch.testing.assert_close(adjusted[0], golden[f"{prefix}adjusted"][n, k], atol=5e-4, rtol=0)
                confidence = torch.sigmoid(torch.as_tensor(score)[0])
                torch.testing.assert_close(confidence, golden[f"{prefix}confidence"][n, k], atol=1e-4, rtol=0)
                if not prefix and golden["lead"][n, k] > 1e-3:
                    assert int(adjusted[0].argmax()) == int(golden["drafted"][n, k])
