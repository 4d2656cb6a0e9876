"""T0: the table model gives exactly its table."""

import pytest
import torch

from deepinfer import LLM, SamplingParams
from tests.support.table_model import SOFT_IDS, SOFT_LOGITS, VOCAB, perm_table, soft_table


@pytest.mark.parametrize(("numerics", "tolerance"), [("fp32", 1e-5), ("fp32-quant", 1e-5), ("official", 0.0625)])
def test_t0_logits_are_the_table(table_models, numerics, tolerance):
    """Behind every id, at every position up to 288, also where window, pairs and top-k have long filled up."""
    table = perm_table()
    table[:, 5] = torch.arange(VOCAB) / 8 - 16  # a column without zeros
    params = SamplingParams(temperature=0, max_tokens=1, golden_token_ids=[0], prompt_logprobs=-1, logprobs=-1)
    with LLM(table_models.path(table), numerics=numerics, max_model_len=300, block_size=8) as llm:
        prompt = torch.randperm(VOCAB, generator=torch.Generator().manual_seed(0)).tolist()
        with llm.capture("logits") as tap:
            (output,) = llm.generate([prompt], params, use_tqdm=False)
            steps = llm.generate([[token] for token in range(0, VOCAB, 37)], params, use_tqdm=False)
    rows = torch.stack([torch.from_numpy(entry.row) for entry in output.prompt_logprobs[1:]])
    expected = torch.log_softmax(table.T[prompt[:-1]].double(), dim=-1).float()
    torch.testing.assert_close(rows, expected, atol=tolerance, rtol=0)
    for token, step in zip(range(0, VOCAB, 37), steps, strict=True):
        logits = tap.tensor("logits", step.request_id)[0]
        torch.testing.assert_close(logits, table[:, token], atol=tolerance, rtol=0)


def test_t0_generation_follows_the_tables(table_models):
    with LLM(table_models.path(perm_table()), numerics="fp32", max_model_len=64) as llm:
        (output,) = llm.generate([[10]], SamplingParams(temperature=0, max_tokens=8), use_tqdm=False)
    assert output.outputs[0].token_ids == [57, 36, 187, 174, 109, 40, 207, 18]
    with LLM(table_models.path(soft_table()), numerics="fp32", max_model_len=64) as llm:
        (output,) = llm.generate([[10]], SamplingParams(max_tokens=1, logprobs=4), use_tqdm=False)
    entry = output.outputs[0].logprobs[0]
    values = torch.log_softmax(torch.tensor(SOFT_LOGITS), 0).tolist()
    assert [entry[token].logprob for token in SOFT_IDS] == pytest.approx(values, abs=1e-5)
