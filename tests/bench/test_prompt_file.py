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
    file.write_text('"a\u2028b\x85c"\r\n"d"')  # line separators that JSON lets stand
    assert read_prompts(file, byte_tokenizer(), 10) == ["a\u2028b\x85c", "d"]
    for line in ("5", "{}", "[]", "no json", "[" * 100_000):
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
    file.write_bytes(b"")
    with pytest.raises(ConfigError, match="holds no prompt"):
        read_prompts(file, tokenizer, 100)
    file.write_bytes(bytes(range(256)))
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_prompts(file, tokenizer, 100)
    for name, message in (
        ("missing.txt", "cannot be read"),
        (".", "cannot be read"),
        ("/dev/zero", "not a regular file"),
    ):
        with pytest.raises(ConfigError, match=message):
            read_prompts(tmp_path / name, tokenizer, 100)


def test_bundled_prompts():
    sets = bundled_prompts()
    assert [len(sets[name]) for name in ("chat", "text", "eval")] == [8, 4, 376]
