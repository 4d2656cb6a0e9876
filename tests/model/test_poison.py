"""A NaN in one request ends that request and touches nothing else, now or later."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from deepinfer import LLM, RequestOutput, SamplingParams
from deepinfer.checkpoint.writer import write_random_checkpoint
from tests.model.test_batching import mixed_prompts
from tests.ops.builders import normal
from tests.support.tiny_config import tiny_config

POISON = 2  # the pad id: greedy decoding never gives it


@pytest.mark.parametrize("numerics", ["fp32", "official"])
@pytest.mark.parametrize("place", [2, 39])
def test_a_nan_embedding_row_ends_its_request_alone(
    numerics: str, place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deepinfer.worker.model_loader.FiniteSource", lambda reader: reader)  # it would refuse the NaN
    embedding = normal(288, 64)
    embedding[POISON] = torch.nan
    write_random_checkpoint(tiny_config(), tmp_path, seed=3, overrides={"embed.weight": embedding})
    good = mixed_prompts(3, 280, 40)
    bad = [7 + i for i in range(40)]
    bad[place] = POISON
    params = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True, logprobs=3)
    options = {"numerics": numerics, "max_model_len": 48, "block_size": 4}

    def same(outputs: list[RequestOutput], wanted: list[RequestOutput]) -> None:
        for output, want in zip(outputs, wanted, strict=True):
            assert output.error is None
            assert output.outputs[0].token_ids == want.outputs[0].token_ids
            assert output.outputs[0].logprobs == want.outputs[0].logprobs

    with LLM(tmp_path, max_num_seqs=1, **options) as llm:  # never sees the poison
        alone = [llm.generate(prompt, params, use_tqdm=False)[0] for prompt in good]
    with LLM(tmp_path, max_num_seqs=4, **options) as llm:
        first, poisoned, *rest = llm.generate([good[0], bad, *good[1:]], params, use_tqdm=False)
        assert poisoned.error is not None and poisoned.outputs[0].finish_reason == "error"
        same([first, *rest], alone)
        # Four sequences at full length take every block and slot of this cache, the poisoned ones among them.
        same(llm.generate([*good, good[0]], params, use_tqdm=False), [*alone, alone[0]])
        long = SamplingParams(temperature=0, max_tokens=44, ignore_eos=True)
        filled = llm.generate([[3, 4, 5, 6]] * 4, long, use_tqdm=False)
        assert [output.error for output in filled] == [None] * 4
        assert len({tuple(output.outputs[0].token_ids) for output in filled}) == 1
