"""Prompts from files: JSON lines, passages of a text, and what is refused."""

import pytest

from deepinfer import ConfigError
from deepinfer.bench.prompt_file import PASSAGE_TOKENS, bundled_prompts, read_prompts
from tests.support.table_engine import byte_tokenizer


def test_json_lines(tmp_path):
    file = tmp_path / "prompts.jsonl"
    file.write_text('"ab"\n\n{"prompt": "cd", "answer": "x"}\n[1, 2]\n"ef"\n')
    assert read_prompts(file, byte_tokenizer(), 10) == ["ab", "cd", [1, 2], "ef"]
    assert read_prompts(file, byte_tokenizer(), 2) == ["ab", [1, 2]]
    for line in ("5", "{}", "[]", "no json"):
        file.write_text(f'"ab"\n{line}\n')
        with pytest.raises(ConfigError, match="line 2"):
            read_prompts(file, byte_tokenizer(), 10)


def test_passages_of_a_text(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("abcdefgh" * PASSAGE_TOKENS)
    tokenizer = byte_tokenizer()
    passages = read_prompts(file, tokenizer, 100)
    assert len(passages) == 8 and all(passage[0] == tokenizer.bos_token_id for passage in passages)
    assert tokenizer.decode(passages[0][1:]) == "abcdefgh" * (PASSAGE_TOKENS // 8)
    file.write_text("short")
    with pytest.raises(ConfigError, match="holds no prompt"):
        read_prompts(file, tokenizer, 100)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_prompts(tmp_path / "missing.txt", tokenizer, 100)


def test_bundled_prompts():
    sets = bundled_prompts()
    assert [len(sets[name]) for name in ("chat", "text", "eval")] == [8, 4, 376]
