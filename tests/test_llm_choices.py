"""n > 1 on a real model: every choice is, bit for bit, the single request with that choice's seed."""

from collections.abc import Iterator

import pytest

from deepinfer import LLM, CompletionOutput, SamplingParams
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.config.numerics import Numerics
from deepinfer.sampling.seeds import derive_choice_seed
from deepinfer.worker.kv_cache import block_bytes, cache_table
from tests.support.golden_case import GOLDEN

PARAMS = SamplingParams(temperature=1.0, seed=11, max_tokens=4, ignore_eos=True, logprobs=1)
BLOCK_BYTES = block_bytes(cache_table(DeepSeekV41Config.from_path(GOLDEN / "nano-s1"), Numerics.FP32, "auto", 8))
PROMPTS = [[(7 * i + 3) % 200 + 5 for i in range(length)] for length in (7, 8, 9)]


@pytest.fixture(scope="module")
def llm() -> Iterator[LLM]:
    with LLM(GOLDEN / "nano-s1", numerics="fp32", max_num_seqs=9, block_size=8, max_model_len=64) as llm:
        yield llm


def bits(completion: CompletionOutput) -> tuple[list[int], object]:
    assert completion.logprobs is not None
    return completion.token_ids, completion.logprobs.to_list()


@pytest.fixture(scope="module")
def alone(llm: LLM) -> list[list[tuple[list[int], object]]]:
    """Per prompt, the single requests with the seeds of three choices."""
    runs = [
        llm.generate(PROMPTS, PARAMS.replace(seed=derive_choice_seed(11, choice)), use_tqdm=False)
        for choice in range(3)
    ]
    return [[bits(outputs[place].outputs[0]) for outputs in runs] for place in range(len(PROMPTS))]


def test_choices_equal_single_requests(llm: LLM, alone: list) -> None:
    before = llm.stats()
    outputs = llm.generate(PROMPTS, PARAMS.replace(n=3), use_tqdm=False)
    assert [[bits(completion) for completion in output.outputs] for output in outputs] == alone
    assert all(len({tuple(tokens) for tokens, _ in choices}) == 3 for choices in alone)
    assert alone[0][0] == bits(llm.generate([PROMPTS[0]], PARAMS, use_tqdm=False)[0].outputs[0])
    after = llm.stats()
    assert after.num_forked - before.num_forked == 6


@pytest.mark.parametrize(
    "options",
    [
        {"max_num_seqs": 2},
        {"max_num_seqs": 9, "kv_cache_bytes": 4 * BLOCK_BYTES},
        {"max_num_seqs": 3, "max_prefill_chunk": 5, "max_num_batched_tokens": 6},
    ],
)
def test_small_engines_give_the_same_bits(alone: list, options: dict) -> None:
    with LLM(GOLDEN / "nano-s1", numerics="fp32", block_size=8, max_model_len=64, **options) as small:
        outputs = small.generate(PROMPTS, PARAMS.replace(n=3), use_tqdm=False)
        assert [[bits(completion) for completion in output.outputs] for output in outputs] == alone
        stats = small.stats()
        assert stats.num_recomputed_tokens > 0 or options["max_num_seqs"] == 3
        assert stats.num_free_blocks == stats.num_blocks and stats.num_free_state_slots == stats.num_state_slots


def test_greedy_choices_are_equal_and_bans_hold_in_each(llm: LLM) -> None:
    greedy = PARAMS.replace(temperature=0, n=3)
    (free,) = llm.generate([PROMPTS[0]], greedy, use_tqdm=False)
    assert len({tuple(completion.token_ids) for completion in free.outputs}) == 1
    banned = free.outputs[0].token_ids[1]
    word = llm.get_tokenizer().decode_token(banned)
    (held,) = llm.generate([PROMPTS[0]], greedy.replace(bad_words=[word]), use_tqdm=False)
    assert held.error is None
    for completion in held.outputs:
        assert banned not in completion.token_ids and completion.token_ids == held.outputs[0].token_ids


def test_a_tap_keeps_choices_apart(llm: LLM) -> None:
    with llm.capture("logits") as tap:
        (output,) = llm.generate([PROMPTS[0]], PARAMS.replace(n=2), request_ids=["mine"], use_tqdm=False)
    assert sorted(tap["logits"]) == ["mine", "mine#1"]
    assert tap.positions("logits", "mine").tolist() == [6, 7, 8, 9]
    assert tap.positions("logits", "mine#1").tolist() == [7, 8, 9]
    assert len(output.outputs) == 2
