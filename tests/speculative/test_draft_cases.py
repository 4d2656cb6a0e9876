"""Known faults of other engines' drafts: corrupted state behind wrong drafts (22), ignored options (23)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from deepinfer import LLM, ConfigError, SamplingParams
from tests.sampling.chi_square import chi_square_fails
from tests.speculative.scripted_proposer import PATTERNS, ScriptedProposer
from tests.speculative.table_drafts import DRAFT
from tests.support.table_model import SOFT_IDS, TableModels, soft_table

NUM_TOKENS, STARTS = 60, range(1, 21)
GREEDY = SamplingParams(temperature=0, max_tokens=NUM_TOKENS, ignore_eos=True, logprobs=2)
PLAIN = GREEDY.replace(logprobs=None)
PROMPTS = [np.random.default_rng(length).integers(3, 280, length).tolist() for length in STARTS]
OPTIONS: dict[str, Any] = {"numerics": "fp32", "max_model_len": 96, "block_size": 4, "max_num_seqs": len(PROMPTS)}


@pytest.fixture(scope="module")
def oracle(random_model):
    """Outputs without drafts."""
    with LLM(random_model, speculative="off", **OPTIONS) as llm:
        return [output.outputs[0] for output in llm.generate(PROMPTS, GREEDY, use_tqdm=False)]


def check_case_22(model, oracle, num_drafts, pattern):
    """Drafts judged row by row with log-probabilities, and in whole steps without."""
    texts = {tuple(prompt): one.token_ids for prompt, one in zip(PROMPTS, oracle, strict=True)}
    with LLM(model, speculative={"num_drafts": num_drafts}, **OPTIONS) as llm:
        proposer = ScriptedProposer(texts, num_drafts, 288, PATTERNS[pattern])
        proposer.install(llm)
        whole = [output.outputs[0] for output in llm.generate(PROMPTS, PLAIN, use_tqdm=False)]
        assert proposer.num_decoded > 0
        outputs = [output.outputs[0] for output in llm.generate(PROMPTS, GREEDY, use_tqdm=False)]
        stats = llm.stats()
    for mine, plain, theirs in zip(outputs, whole, oracle, strict=True):
        assert mine.token_ids == plain.token_ids == theirs.token_ids
        assert mine.num_accepted_tokens == plain.num_accepted_tokens
        assert mine.logprobs == theirs.logprobs
    assert stats.num_drafts_verified > 0
    right = {"all": 1.0, "none": 0.0, "every second": 1.0 if num_drafts == 1 else None}.get(pattern)
    share = stats.num_drafts_accepted / stats.num_drafts_verified
    assert share == right if right is not None else 0.0 < share < 1.0
    return outputs


SAMPLE = [(1, "none"), (8, "every second"), (5, "growing runs")]


@pytest.mark.parametrize(("num_drafts", "pattern"), SAMPLE)
def test_case_22_scripted_drafts(random_model, oracle, num_drafts, pattern):
    check_case_22(random_model, oracle, num_drafts, pattern)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("num_drafts", "pattern"), [*itertools.product(range(1, 9), PATTERNS)])
def test_case_22_every_width_and_pattern(random_model, oracle, num_drafts, pattern):
    check_case_22(random_model, oracle, num_drafts, pattern)


def test_case_22_the_state_is_that_of_a_fresh_prefill(random_model, oracle):
    """What stands behind wrong drafts comes from the same caches as in one prefill of the whole text, to the bit."""
    outputs = check_case_22(random_model, oracle, 3, "every second")
    whole = [prompt + output.token_ids for prompt, output in zip(PROMPTS, outputs, strict=True)]
    with LLM(random_model, speculative="off", **OPTIONS) as llm:
        scored = llm.generate(whole, SamplingParams(max_tokens=0, prompt_logprobs=2), use_tqdm=False)
    for prompt, output, fresh in zip(PROMPTS, outputs, scored, strict=True):
        assert list(fresh.prompt_logprobs[len(prompt) :]) == list(output.logprobs)


@pytest.mark.parametrize("num_drafts", [-1, 33, 2.5])
def test_case_22_a_width_out_of_range_is_refused(random_model, num_drafts):
    with pytest.raises(ConfigError, match=r"speculative.num_drafts"):
        LLM(random_model, speculative={"num_drafts": num_drafts})


def soft_draws(models: TableModels, num_draws: int, **options: Any) -> np.ndarray:
    """How often each of the four ids comes: SOFT with a drafter that thinks otherwise."""
    path = models.path(soft_table(), draft=DRAFT)
    sizes: dict[str, Any] = {"max_model_len": 64, "block_size": 8, "max_num_seqs": 100}
    with LLM(path, numerics="fp32", speculative={"varlen": False}, **sizes, **options) as llm:
        params = SamplingParams(max_tokens=50, ignore_eos=True)
        outputs = llm.generate([[10]] * (num_draws // 50), params, use_tqdm=False)
        assert llm.stats().num_drafts_accepted > 0
    tokens = [token for output in outputs for token in output.outputs[0].token_ids]
    return np.bincount(tokens, minlength=288)[list(SOFT_IDS)]


SOFT = np.exp([3.0, 2.0, 1.0, 0.0]) / np.exp([3.0, 2.0, 1.0, 0.0]).sum()
RULES: list[dict[str, Any]] = [{}, {"batch_invariant": False}]


@pytest.mark.parametrize("options", RULES, ids=["coupled", "rejection"])
def test_case_23_a_bad_drafter(table_models, options):
    assert not chi_square_fails(soft_draws(table_models, 800, **options), SOFT)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("options", RULES, ids=["coupled", "rejection"])
def test_case_23_a_bad_drafter_20_000_times(table_models, options):
    assert not chi_square_fails(soft_draws(table_models, 20_000, **options), SOFT)
