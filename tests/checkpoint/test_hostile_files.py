"""Hostile JSON in every file of a checkpoint: a DeepInferError that names the file, never a raw exception."""

import json
import struct

import pytest
import tokenizers

from deepinfer.checkpoint.checkpoint_form import check_form
from deepinfer.checkpoint.reader import CheckpointReader
from deepinfer.checkpoint.shard_header import read_shard_header
from deepinfer.checkpoint.shard_index import INDEX_NAME
from deepinfer.checkpoint.writer import write_random_checkpoint
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.engine.generation_defaults import GenerationDefaults
from deepinfer.engine.model_path import resolve_model_path
from deepinfer.errors import CheckpointError, ConfigError, DeepInferError
from deepinfer.text.tokenizer import Tokenizer
from deepinfer.text.vocabulary_map import compressed_vocabulary
from tests.support.tiny_config import tiny_config

DEEP = 100_000
HOSTILE = {
    "digits": b'{"a": ' + b"9" * 5000 + b"}",
    "deep": b'{"a": ' + b"[" * DEEP + b"]" * DEEP + b"}",
    "infinite": b'{"a": 1e999}',
    "NaN": b'{"a": NaN}',
    "twice": b'{"a": 1, "a": 2}',
    "half": b'{"a": "\\ud800"}',
    "list": b"[]",
    "bytes": b"\xff\xfe",
    "empty": b"",
}
READERS = {
    "config.json": DeepSeekV41Config.from_path,
    INDEX_NAME: CheckpointReader,
    "generation_config.json": lambda path: GenerationDefaults.read(path, use_params=True, vocab_size=288),
    "tokenizer_config.json": Tokenizer.from_path,
    "tokenizer.json": Tokenizer.from_path,
}


def _header(text: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(text)) + text + data


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("name", READERS)
def test_hostile_json_in_any_file(damaged, name, text):
    (damaged / name).write_bytes(HOSTILE[text])
    with pytest.raises(DeepInferError, match=name) as error:
        READERS[name](damaged)
    assert len(str(error.value)) < 1500


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_json_in_a_header(tmp_path, text):
    file = tmp_path / "x.safetensors"
    file.write_bytes(_header(HOSTILE[text]))
    with pytest.raises(CheckpointError, match="x.safetensors") as error:
        read_shard_header(file)
    assert len(str(error.value)) < 1500


WRONG = (None, [], {}, [[]], True, 1, -1, 1.5, "x", "F32\0", [None], ["1"], [1.0], [True], [2**62] * 9, {"a": []})


@pytest.mark.parametrize("key", ["dtype", "shape", "data_offsets", None])
@pytest.mark.parametrize("value", WRONG, ids=str)
def test_wrong_types_in_a_header(tmp_path, key, value):
    if (key, value) == ("shape", []):
        pytest.skip("a scalar")
    entry = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
    header = {"a\0b": value if key is None else {**entry, key: value}}
    (tmp_path / "x.safetensors").write_bytes(_header(json.dumps(header).encode(), b"\0" * 4))
    with pytest.raises(CheckpointError, match=r"x.safetensors: tensor 'a\\x00b'"):
        read_shard_header(tmp_path / "x.safetensors")


@pytest.mark.parametrize("value", [1, [], "pt", {"format": 1}, {"format": None}], ids=str)
def test_wrong_metadata_in_a_header(tmp_path, value):
    (tmp_path / "x.safetensors").write_bytes(_header(json.dumps({"__metadata__": value}).encode()))
    with pytest.raises(CheckpointError, match=r"x.safetensors: __metadata__ = "):
        read_shard_header(tmp_path / "x.safetensors")


@pytest.mark.parametrize("name", ["x" * 5000, "x" * 256, "ü" * 200, "a\0b", "a/b", "..", ""], ids=lambda name: name[:4])
def test_impossible_file_names_in_the_index(damaged, name):
    index = json.loads((damaged / INDEX_NAME).read_text())
    index["weight_map"]["norm.weight"] = name
    (damaged / INDEX_NAME).write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match="'norm.weight' names the file .* plain file name") as error:
        CheckpointReader(damaged)
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize(
    "model", ["a" * 5000, "/" + "a" * 5000, "a/" * 3000, "a\0b", "/a\0b", "~nobody-at-all/x", "\ud800", "~\0"]
)
def test_impossible_names_of_a_model(model):
    with pytest.raises(CheckpointError, match="tokenizer=.*no such directory") as error:
        resolve_model_path(model, option="tokenizer")
    assert len(str(error.value)) < 1000
    with pytest.raises(ConfigError):
        DeepSeekV41Config.from_path(model)
    with pytest.raises(CheckpointError):
        CheckpointReader(model)
    with pytest.raises(CheckpointError):
        Tokenizer.from_path(model)


@pytest.mark.parametrize("name", ["bos_token", "eos_token", "pad_token", "unk_token"])
@pytest.mark.parametrize("value", [1, True, [], {}, {"content": 5}, {"content": ["x"]}, 1.5], ids=str)
def test_special_tokens_are_texts(damaged, name, value):
    (damaged / "tokenizer_config.json").write_text(json.dumps({name: value}))
    if value == {}:
        assert Tokenizer.from_path(damaged).bos_token_id is None
        return
    with pytest.raises(CheckpointError, match=f"tokenizer_config.json: {name} = "):
        Tokenizer.from_path(damaged)


@pytest.mark.parametrize("value", [-1, 288, 2**31, 2**63 - 1, [1, -1], [2**31], True, 1.0, "1", {}, [None]], ids=str)
def test_eos_ids_lie_in_the_vocabulary(damaged, value):
    (damaged / "generation_config.json").write_text(json.dumps({"eos_token_id": value}))
    with pytest.raises(CheckpointError, match=r"generation_config.json: eos_token_id = .*vocab_size \(288\)"):
        READERS["generation_config.json"](damaged)


@pytest.mark.parametrize("key", ["temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_new_tokens"])
@pytest.mark.parametrize("value", [2**62, -(2**62), 1e308, "x", [], {}, True], ids=str)
def test_sampling_defaults_out_of_range(damaged, key, value):
    if (key, value) in (("temperature", 2**62), ("temperature", 1e308)):
        pytest.skip("finite and not negative")
    (damaged / "generation_config.json").write_text(json.dumps({key: value}))
    with pytest.raises(CheckpointError, match="generation_config.json: .* must be"):
        READERS["generation_config.json"](damaged)


def test_a_panic_of_the_tokenizer_library_is_an_error(damaged):
    description = json.loads((damaged / "tokenizer.json").read_text())
    description["model"]["continuing_subword_prefix"] = "☃"
    (damaged / "tokenizer.json").write_text(json.dumps(description))
    with pytest.raises(CheckpointError, match="not a readable tokenizer.json"):
        Tokenizer.from_path(damaged)


def _move_id(directory, token_id: int) -> None:
    description = json.loads((directory / "tokenizer.json").read_text())
    vocab = description["model"]["vocab"]
    vocab[max(vocab, key=vocab.get)] = token_id
    (directory / "tokenizer.json").write_text(json.dumps(description))


@pytest.mark.parametrize("token_id", [2**31 - 2, 2**32 - 1, 2**32, -1])
def test_ids_outside_the_vocabulary_make_no_table(damaged, token_id):
    _move_id(damaged, token_id)
    for read in (
        lambda: Tokenizer.from_path(damaged),
        lambda: Tokenizer.from_path(damaged, vocab_size=288),
        lambda: compressed_vocabulary(damaged / "tokenizer.json", 288),
    ):
        with pytest.raises(CheckpointError, match=r"tokenizer.json: (.*vocab_size|not a readable)"):
            read()


def test_the_first_id_outside_is_named(damaged):
    _move_id(damaged, 288)
    assert Tokenizer.from_path(damaged).size == 289
    with pytest.raises(CheckpointError, match=r"has the id 288, outside the vocab_size of config.json \(288\)"):
        Tokenizer.from_path(damaged, vocab_size=288)
    assert isinstance(Tokenizer.from_path(damaged, vocab_size=289), Tokenizer)
    assert tokenizers.Tokenizer.from_file(str(damaged / "tokenizer.json")).get_vocab_size() <= 289


@pytest.mark.parametrize(
    "form",
    [
        *({"shards": value} for value in (0, -1, 2**31, 1.0, True, "1")),
        *({"gain": value} for value in (-1.0, float("nan"), 10**400, "1")),
        {"scale_dtype": "F32"},
        {"scale_dtype": []},
        {"prefix": 1},
    ],
    ids=lambda form: str(form)[:40],
)
def test_wrong_forms_of_a_written_checkpoint(tmp_path, form):
    with pytest.raises(ConfigError, match=f"^{next(iter(form))} = "):
        check_form(form)
    with pytest.raises(ConfigError):
        write_random_checkpoint(tiny_config(), tmp_path / "new", **form)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("config", [{}, {"text_config": 1}, tiny_config(vocab_size=2**31), tiny_config(vocab_size="x")])
def test_wrong_configs_are_not_written(tmp_path, config):
    with pytest.raises(ConfigError, match="text_config"):
        write_random_checkpoint(config, tmp_path)
