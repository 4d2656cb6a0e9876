"""Prompt forms, request validation, default parameters and constructor names, without a model."""

import json

import numpy as np
import pytest

from deepinfer import CheckpointError, RequestError, SamplingParams, UnsupportedFeatureError
from deepinfer.engine.foreign_options import drop_foreign_options
from deepinfer.engine.generation_defaults import GenerationDefaults
from deepinfer.engine.model_path import bundled_model_path, resolve_model_path
from deepinfer.engine.prompt_encoder import PromptEncoder, split_prompts
from deepinfer.engine.request_ids import RequestIds
from deepinfer.sampling.seeds import derive_request_seed
from tests.support.table_engine import EOS, NUM_IDS, TableEngine, byte_tokenizer

ENCODER = PromptEncoder(byte_tokenizer(), 300, image_token_id=261)


@pytest.mark.parametrize(
    ("prompt", "text", "ids"),
    [
        ("ab", "ab", [259, 97, 98]),
        ("<bos>ab", "<bos>ab", [259, 97, 98]),
        ("", "", [259]),
        ([259, 259, 5], None, [259, 259, 5]),
        ((1, 2), None, [1, 2]),
        (np.array([1, 2], np.uint8), None, [1, 2]),
        ([np.int64(3)], None, [3]),
        ({"prompt": "a"}, "a", [259, 97]),
        ({"prompt_token_ids": [7]}, None, [7]),
        ({"prompt": "shown", "prompt_token_ids": [7]}, "shown", [7]),
        ({"prompt": "a", "multi_modal_data": None}, "a", [259, 97]),
    ],
)
def test_accepted_prompt_forms(prompt: object, text: str | None, ids: list[int]) -> None:
    encoded = ENCODER.encode(prompt)
    assert (encoded.text, encoded.token_ids.tolist(), encoded.token_ids.dtype) == (text, ids, np.int32)


@pytest.mark.parametrize(
    ("prompt", "code", "words"),
    [
        ([], "empty_prompt", "empty"),
        ([True, 2], "invalid_token_id", r"\[0\] is True"),
        ([1, 2.0], "invalid_token_id", r"\[1\] is 2.0"),
        ([1, "2"], "invalid_token_id", r"\[1\] is '2'"),
        ([1, None], "invalid_token_id", "None"),
        ([5, -1], "token_id_out_of_range", r"\[1\] is -1; ids go from 0 to 261"),
        ([NUM_IDS], "token_id_out_of_range", "262"),
        ([2**80], "token_id_out_of_range", "64 bits"),
        ([261], "image_not_supported", "image"),
        ("a<image>", "image_not_supported", "image"),
        (np.array([1.0]), "invalid_token_id", "float64"),
        (np.array([True]), "invalid_token_id", "bool"),
        (np.zeros((1, 2), int), "invalid_token_id", r"\(1, 2\)"),
        (None, "invalid_prompt", "NoneType"),
        (b"ab", "invalid_prompt", "bytes"),
        (5, "invalid_prompt", "int"),
        ({}, "invalid_prompt", "neither"),
        ({"prompt": 5}, "invalid_prompt", "int"),
        ({"prompt_token_ids": "ab"}, "invalid_prompt", "str"),
        ({"promt": "a"}, "invalid_prompt", "'promt'"),
    ],
)
def test_refused_prompts(prompt: object, code: str, words: str) -> None:
    with pytest.raises(RequestError, match=words) as caught:
        ENCODER.encode(prompt)
    assert caught.value.code == code


def test_image_data_is_named() -> None:
    with pytest.raises(UnsupportedFeatureError, match="multi_modal_data: image input"):
        ENCODER.encode({"prompt": "a", "multi_modal_data": {"image_bytes": [b""]}})


@pytest.mark.parametrize(
    ("prompts", "ids", "items"),
    [
        ("a", None, ["a"]),
        ([1, 2], None, [[1, 2]]),
        (np.array([1, 2]), None, 1),
        ([], None, []),
        (("a", "b"), None, ["a", "b"]),
        (iter(["a"]), None, ["a"]),
        (["a", [1], {"prompt": "b"}], None, ["a", [1], {"prompt": "b"}]),
        ({"prompt": "b"}, None, [{"prompt": "b"}]),
        (None, [[1], [2]], [{"prompt_token_ids": [1]}, {"prompt_token_ids": [2]}]),
        (None, [1, 2], [{"prompt_token_ids": [1, 2]}]),
        ("a", [[1]], [{"prompt": "a", "prompt_token_ids": [1]}]),
    ],
)
def test_one_prompt_or_several(prompts: object, ids: object, items: object) -> None:
    split = split_prompts(prompts, ids)
    assert len(split) == items if isinstance(items, int) else split == items


def test_call_mistakes_are_raised() -> None:
    for arguments, code in ((([], [[1]]), "length_mismatch"), ((None, None), "no_prompts"), ((5,), "invalid_prompt")):
        with pytest.raises(RequestError) as caught:
            split_prompts(*arguments)
        assert caught.value.code == code


def test_pairs_are_split_as_lm_eval_does() -> None:
    encoded, start = ENCODER.encode_pair("a ", "cat")  # " cat" is one token
    assert (encoded.token_ids.tolist(), start) == ([259, 97, 258], 2)
    encoded, start = ENCODER.encode_pair("", "b")
    assert (encoded.token_ids.tolist(), start) == ([259, 98], 1)
    encoded, start = ENCODER.encode_pair([5, 6], [7])
    assert (encoded.token_ids.tolist(), start) == ([5, 6, 7], 2)
    encoded, start = ENCODER.encode_pair([5], "b")
    assert (encoded.token_ids.tolist(), start) == ([5, 98], 1)
    with pytest.raises(RequestError, match="context is empty"):
        ENCODER.encode_pair([], [7])


def test_effective_limits_seeds_and_stop_ids() -> None:
    engine = TableEngine.build(max_model_len=32)
    prompt = engine.encoder.encode([1] * 30)

    def request(**params: object) -> object:
        return engine.inputs.generation("r", 5, prompt, SamplingParams(**params))

    assert [request(max_tokens=limit).max_tokens for limit in (None, 1, 16)] == [2, 1, 2]
    assert request().seed == derive_request_seed(0, 5)
    assert request(seed=-1).seed == 2**64 - 1
    assert request(stop_token_ids=[EOS, 7]).stop_token_ids == (EOS, 7)
    assert request(ignore_eos=True, stop_token_ids=[7]).stop_token_ids == (7,)
    assert (request().score_start, request(prompt_logprobs=0).score_start) == (None, 1)
    assert request(prompt_logprobs=-1).score_top_k == -1


@pytest.mark.parametrize(
    ("params", "error", "words"),
    [
        ({"stop_token_ids": [NUM_IDS]}, RequestError, "stop_token_ids"),
        ({"logit_bias": {NUM_IDS: 1.0}}, RequestError, "logit_bias"),
        ({"bad_words": [" "]}, RequestError, "white space"),
    ],
)
def test_one_wrong_request_harms_no_other(params: dict, error: type, words: str) -> None:
    engine = TableEngine.build()
    good, bad, other = engine.run([[1], [2], [3]], [SamplingParams(), SamplingParams(**params), SamplingParams()])
    assert words in str(bad.error) and bad.outputs[0].finish_reason == "error" and bad.prompt_token_ids == []
    assert good.error is None and other.error is None and len(other.outputs[0].token_ids) == 16
    with pytest.raises(error, match=f"prompt 1: .*{words}"):
        engine.batch([[1], [2]], [SamplingParams(), SamplingParams(**params)]).raise_first_error()


def test_lengths_and_capacity_name_both_figures() -> None:
    engine = TableEngine.build(num_blocks=4, block_size=8, max_model_len=64)
    outputs = engine.run([[1] * 10, [1] * 40, [1] * 65, [1] * 10], SamplingParams(max_tokens=2))
    assert [output.error is None for output in outputs] == [True, False, False, True]
    assert (
        outputs[1].error.code == "capacity_exceeded" and "40" in str(outputs[1].error) and "32" in str(outputs[1].error)
    )
    assert (
        outputs[2].error.code == "prompt_too_long" and "65" in str(outputs[2].error) and "64" in str(outputs[2].error)
    )
    (grown,) = engine.run([[1] * 30], SamplingParams(max_tokens=20, ignore_eos=True))
    assert grown.outputs[0].finish_reason == "length" and len(grown.outputs[0].token_ids) == 3


def test_generation_config_gives_defaults(tmp_path) -> None:
    def read(text: str, use_params: bool = True) -> GenerationDefaults:
        (tmp_path / "generation_config.json").write_text(text)
        return GenerationDefaults.read(tmp_path, use_params=use_params, vocab_size=300)

    assert GenerationDefaults.read(tmp_path, use_params=True, vocab_size=300) == GenerationDefaults()
    values = {
        "do_sample": True,
        "temperature": 0.3,
        "top_p": 0.9,
        "top_k": 0,
        "max_new_tokens": 9,
        "eos_token_id": [1, 5],
    }
    defaults = read(json.dumps(values))
    assert defaults.params == SamplingParams(temperature=0.3, top_p=0.9, max_tokens=9)
    assert defaults.eos_token_ids == (1, 5)
    assert read(json.dumps(values), use_params=False) == GenerationDefaults(SamplingParams(), (1, 5))
    assert read('{"do_sample": false, "temperature": 0.3}').params.greedy
    for text in ("[]", "{", '{"temperature": "hot"}', '{"eos_token_id": true}'):
        with pytest.raises(CheckpointError, match="generation_config.json"):
            read(text)


def test_names_of_other_engines() -> None:
    assert drop_foreign_options({"tensor_parallel_size": 1, "dtype": "auto", "mine": 3}) == {"mine": 3}
    with pytest.raises(UnsupportedFeatureError, match="tensor_parallel_size = 2: .*expert_parallel_size"):
        drop_foreign_options({"tensor_parallel_size": 2})
    with pytest.raises(UnsupportedFeatureError, match="outputs"):
        drop_foreign_options({"decode_sequence": True})


def test_request_ids() -> None:
    ids = RequestIds({"1", "busy"}.__contains__)
    assert ids.take(3, None) == ["0", "2", "3"] and ids.take(1, None) == ["4"]
    assert ids.take(2, ["a", "b"]) == ["a", "b"]
    for given, code in (
        (["a"], "length_mismatch"),
        (["a", "a"], "duplicate_request_id"),
        (["busy", "a"], "duplicate_request_id"),
        (["a", 5], "invalid_request_id"),
    ):
        with pytest.raises(RequestError) as caught:
            ids.take(2, given)
        assert caught.value.code == code


def test_model_paths(tmp_path, monkeypatch) -> None:
    assert resolve_model_path(None) == bundled_model_path()
    assert resolve_model_path(str(tmp_path)) == tmp_path
    with pytest.raises(CheckpointError, match="no such directory"):
        resolve_model_path(str(tmp_path / "absent"))
    calls = []

    def snapshot_download(name: str, **options: object) -> str:
        calls.append((name, options["revision"]))
        raise OSError("offline")

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    with pytest.raises(CheckpointError, match=r"owner/name.*revision 'v2'.*offline"):
        resolve_model_path("owner/name", "v2")
    assert calls == [("owner/name", "v2")]
