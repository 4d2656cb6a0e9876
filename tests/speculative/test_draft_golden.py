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
from deepinfer.core.probe import Probe
from deepinfer.models.deepseek_v41.model import DeepSeekV41Model
from deepinfer.models.deepseek_v41.runtime import ModelRuntime
from deepinfer.ops.select import select_backend
from deepinfer.text.vocabulary_map import compressed_vocabulary
from deepinfer.worker.batch_builder import build_batch
from deepinfer.worker.kv_cache import allocate_caches, cache_table
from tests.support.golden_case import GOLDEN

CASES = json.loads((GOLDEN / "draft_cases.json").read_text())
CHECKPOINT = GOLDEN / "nano-s1"
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def model() -> DeepSeekV41Model:
    config = DeepSeekV41Config.from_path(CHECKPOINT)
    runtime = ModelRuntime(config, select_backend("reference", "cpu").ops, Numerics.FP32, max_positions=256)
    vocabulary = compressed_vocabulary(CHECKPOINT / "tokenizer.json", config.vocab_size, config.engram_pad_token_id)
    with CheckpointReader(CHECKPOINT) as reader:
        return DeepSeekV41Model(runtime, reader, CPU, torch.from_numpy(vocabulary), with_drafts=True)


def context_of(model: DeepSeekV41Model, tokens: np.ndarray, num_drafts: int, chunk: int):
    """Caches after a prefill of `tokens` in chunks, and the sequence's state slot."""
    config = DeepSeekV41Config.from_path(Path(CHECKPOINT))
    caches = allocate_caches(cache_table(config, Numerics.FP32, "auto", 128, num_drafts), 4, 2)
    num_lookback = config.engram_max_ngram_size - 1
    scheduler = Scheduler(SchedulerConfig(4, 128, 2, 1, 256, chunk, 256, num_lookback))
    scheduler.add(SequenceSpec(0, tokens, 1, []))
    while True:
        plan = scheduler.schedule()
        model.forward(build_batch(plan, np.array([0]), num_lookback + 1, CPU), caches, Probe())
        if plan.samples[0]:
            return caches, torch.from_numpy(plan.state_slots.astype(np.int64))
        scheduler.update(plan.step_id, [], [0, 0])


@pytest.mark.parametrize("chunk", [256, 3])
@pytest.mark.parametrize("name", CASES)
def test_blocks(name: str, chunk: int, model: DeepSeekV41Model) -> None:
    """Base logits depend on the committed tokens and the anchor only, so any route to them will do."""
    golden = load_file(GOLDEN / f"{name}.draft.safetensors")
    tokens = golden["tokens"].int().numpy()
    num_blocks, num_drafts = golden["drafted"].shape
    assert model.draft is not None
    for n in range(0, num_blocks, 1 if chunk == 256 else 3):
        committed, anchor = int(golden["committed"][n]), golden["anchor"][n : n + 1]
        caches, slots = context_of(model, tokens[:committed], num_drafts, chunk)
        block = model.draft.forward(anchor, torch.tensor([committed - 1]), slots, caches, num_drafts)
        torch.testing.assert_close(block.base_logits[0], golden["base"][n], atol=5e-4, rtol=0)
        for forced, prefix in ((golden["drafted"][n], ""), (golden["forced_ids"][n], "forced_")):
            previous = torch.cat((anchor, forced[:-1]))
            for k in range(num_drafts):
                adjusted, score = model.draft.adjust(block, k, previous[k : k + 1])
                torch.testing.assert_close(adjusted[0], golden[f"{prefix}adjusted"][n, k], atol=5e-4, rtol=0)
                confidence = torch.sigmoid(score[0])
                torch.testing.assert_close(confidence, golden[f"{prefix}confidence"][n, k], atol=1e-4, rtol=0)
                if not prefix and golden["lead"][n, k] > 1e-3:
                    assert int(adjusted[0].argmax()) == int(golden["drafted"][n, k])
