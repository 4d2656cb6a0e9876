"""The one JSON reader: what it takes, what it refuses, and that every refusal names the file and the fault."""

import json
import os

import pytest

from deepinfer.config.strict_json import MAX_DEPTH, parse_json_object, read_json_object
from deepinfer.errors import CheckpointError, ConfigError

DEEP = 100_000
REFUSED = {
    "cut": (b'{"a": 1', "not valid JSON"),
    "no object": (b"[1]", "expected a JSON object, found list"),
    "nothing": (b"", "not valid JSON"),
    "no UTF-8": (b'{"a": "\xff"}', "not UTF-8"),
    "half a character": (b'{"a": ["\\ud800"]}', "half of a character"),
    "half a character as a key": (b'{"\\uDC00": 1}', "half of a character"),
    "a key twice": (b'{"a": {"b": 1, "c": 2, "b": 3}}', "key 'b' is given twice"),
    "5,000 digits": (b'{"a": -' + b"9" * 5000 + b"}", "-9999.* of 5001 characters does not fit into 64 bits"),
    "2^63": (b'{"a": 9223372036854775808}', "9223372036854775808 does not fit into 64 bits"),
    "a float beyond the largest": (b'{"a": 1e400}', "1e400 is too large"),
    "NaN": (b'{"a": NaN}', "NaN is no JSON number"),
    "infinity": (b'{"a": -Infinity}', "-Infinity is no JSON number"),
    "deep lists": (b'{"a": ' + b"[" * DEEP + b"]" * DEEP + b"}", "nested deeper than 64"),
    "deep objects": (b'{"a":' * DEEP + b"1" + b"}" * DEEP, "nested deeper than 64"),
    "one level too deep": (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "nested deeper than 64"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_name_file_and_fault(case, tmp_path):
    content, message = REFUSED[case]
    file = tmp_path / "some.json"
    file.write_bytes(content)
    with pytest.raises(CheckpointError, match=f"^{file}: .*{message}") as error:
        read_json_object(file, CheckpointError)
    assert len(str(error.value)) < 1000


def test_what_is_taken():
    content = b'{"a": [9223372036854775807, -1, 1e300, null, true, "\\ud83d\\ude00"], "b": {"a": {}}}'
    assert parse_json_object(content, "x")["a"] == [2**63 - 1, -1, 1e300, None, True, "\U0001f600"]
    deepest = b'{"a":' * (MAX_DEPTH - 1) + b"{}" + b"}" * (MAX_DEPTH - 1)
    assert json.dumps(parse_json_object(deepest, "x")).count("{") == MAX_DEPTH


def test_files_that_are_none(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_text('{"a": ' + " " * 100 + "1}")
    for name, message in (
        ("absent", "cannot be read"),
        (".", "cannot be read|not a regular file"),
        ("pipe", "not a regular file"),
        ("x" * 5000, "cannot be read"),
        ("a\0b", "no possible file name"),
    ):
        with pytest.raises(ConfigError, match=f": ({message})") as error:
            read_json_object(tmp_path / name)
        assert len(str(error.value)) < 1000
    with pytest.raises(ConfigError, match="large: larger than 100 bytes"):
        read_json_object(tmp_path / "large", ConfigError, 100)
