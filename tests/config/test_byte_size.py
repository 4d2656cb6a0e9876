"""Amounts of memory as text."""

import pytest

from deepinfer.config.byte_size import format_byte_size, parse_byte_size
from deepinfer.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("5", 5),
        ("141GB", 141 * 10**9),
        ("80 GiB", 80 * 2**30),
        ("1.5MiB", 3 * 2**19),
        ("2kB", 2000),
        ("1t", 10**12),
        ("7 B", 7),
    ],
)
def test_parse(text, size):
    assert parse_byte_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "1XB", "1 2GB", "9" * 400 + "GB", "9" * 5000, "2000000TiB"])
def test_parse_refuses(text):
    with pytest.raises(ConfigError, match="memory = .*expected"):
        parse_byte_size(text)


def test_format():
    assert [format_byte_size(size) for size in (5, 1536, 3 * 2**30, 2**42)] == [
        "5 B",
        "1.50 KiB",
        "3.00 GiB",
        "4.00 TiB",
    ]
