"""Seeds through the engine: what repeats, what differs, and that a whole run follows from the engine seed."""

import pytest

from deepinfer import LLM, SamplingParams
from tests.support.table_model import column_table

FLAT = column_table(dict.fromkeys(range(20, 270), 0.0))
FREE = SamplingParams(max_tokens=6, ignore_eos=True)
SEEDED = FREE.replace(seed=1234)


@pytest.fixture(scope="module")
def path(table_models):
    return table_models.path(FLAT)


def start(path, **options):
    return LLM(path, numerics="fp32", max_model_len=32, block_size=8, **options)


@pytest.fixture(scope="module")
def llm(path):
    with start(path) as llm:
        yield llm


def tokens(llm, prompts, params):
    return [tuple(output.outputs[0].token_ids) for output in llm.generate(prompts, params, use_tqdm=False)]


def test_an_explicit_seed_reproduces(llm, path):
    (first,) = tokens(llm, [[10]], SEEDED)
    tokens(llm, [[11]] * 3, FREE)  # requests between change nothing
    assert tokens(llm, [[10]], SEEDED) == [first]
    assert tokens(llm, [[10]] * 3, [FREE, SEEDED, FREE])[1] == first
    with start(path, seed=99) as other:  # the engine seed has no say
        assert tokens(other, [[10]], SEEDED) == [first]
    assert tokens(llm, [[10]], FREE.replace(seed=1234 + 2**64)) == [first]
    assert tokens(llm, [[10]], FREE.replace(seed=1235)) != [first]


def test_unseeded_requests_differ_and_a_run_repeats(path):
    runs = []
    for seed in (3, 3, 4):
        with start(path, seed=seed) as llm:
            runs.append([*tokens(llm, [[10]] * 4, FREE), *tokens(llm, [[10], [11]], FREE), *tokens(llm, [[10]], FREE)])
    assert runs[0] == runs[1] and not set(runs[0]) & set(runs[2])
    assert len(set(runs[0])) == 7


def test_the_seed_used_is_reported_and_repeats(llm):
    (output,) = llm.generate([[10]], FREE, use_tqdm=False)
    again = tokens(llm, [[10]], FREE.replace(seed=output.metrics.seed))
    assert again == [tuple(output.outputs[0].token_ids)]


def test_one_seeded_object_for_many_prompts(llm):
    """Equal prompts get equal samples, different ones their own noise, also when only the length differs."""
    prompts = [[10], [11], [10], [10, 10], [11, 10], [10, 11]]
    found = tokens(llm, prompts, SEEDED)
    assert found[0] == found[2] and len(set(found)) == 5
    assert tokens(llm, prompts[::-1], SEEDED) == found[::-1]


def test_position_noise_does_not_repeat(llm):
    (long,) = tokens(llm, [[10]], SEEDED.replace(max_tokens=24))
    assert long[:6] == tokens(llm, [[10]], SEEDED)[0]  # a longer limit extends
    assert len(set(long)) > 15


def test_parameters_that_do_not_matter_do_not_change_the_draw(llm):
    (plain,) = tokens(llm, [[10]], SEEDED)
    for changes in ({"logprobs": 3}, {"prompt_logprobs": 1}, {"top_k": 288}, {"logit_bias": {3: -5.0}}):
        assert tokens(llm, [[10]], SEEDED.replace(**changes)) == [plain]
