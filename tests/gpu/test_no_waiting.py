"""A forward pass, of the target and of the draft model, is handed to the GPU without waiting for it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from deepinfer import LLM, SamplingParams
from deepinfer.models.deepseek_v41.draft_model import DraftModel
from deepinfer.models.deepseek_v41.model import DeepSeekV41Model
from deepinfer.worker.static_decoder import StaticDecoder

pytest.importorskip("tilelang")

WATCHED = (
    (StaticDecoder, "forward"),
    (DeepSeekV41Model, "forward"),
    (DeepSeekV41Model, "logits"),
    (DraftModel, "forward"),
    (DraftModel, "adjust"),
)


def without_waiting(function: Callable[..., Any], calls: set[str]) -> Callable[..., Any]:
    """Torch raises an error at any operation inside that would wait."""

    @functools.wraps(function)
    def watched(*arguments: Any, **options: Any) -> Any:
        calls.add(function.__qualname__)
        torch.cuda.set_sync_debug_mode("error")
        try:
            return function(*arguments, **options)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    return watched


@pytest.mark.parametrize("is_eager", [False, True])
@pytest.mark.parametrize("yoco", [None, {"mode": "compact"}])
def test_a_forward_pass_waits_for_nothing(
    device: torch.device, monkeypatch: pytest.MonkeyPatch, yoco: dict[str, str] | None, is_eager: bool
) -> None:
    """Random weights of the bundled model's sizes: their Engram tables are in pinned memory."""
    params, calls = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True), set()
    batches = [[[300 + i] * length for i in range(count)] for count, length in ((1, 300), (12, 20))]
    options = {
        "load_format": "dummy",
        "max_model_len": 1024,
        "kv_cache_bytes": 2**28,
        "yoco": yoco,
        "enforce_eager": is_eager,
    }
    with LLM(device="cuda", backend="cuda", **options) as llm:
        for prompts in batches:
            llm.generate(prompts, params, use_tqdm=False)  # kernels are loaded, tables are made
        with monkeypatch.context() as patch:
            for owner, name in WATCHED:
                patch.setattr(owner, name, without_waiting(getattr(owner, name), calls))
            for prompts in batches:
                outputs = llm.generate(prompts, params, use_tqdm=False)
                assert [output.error for output in outputs] == [None] * len(prompts)
    assert {"StaticDecoder.forward", "DeepSeekV41Model.forward", "DraftModel.forward"} <= calls
