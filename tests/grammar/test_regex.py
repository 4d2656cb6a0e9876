"""Regular expressions: equal to Python's full match where accepted, refused by name where they cannot be honoured."""

import re

import pytest

from deepinfer import RequestError
from deepinfer.grammar.regex_syntax import normalise_regex
from tests.grammar.examples import REGEXES


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        (r"^(?=.*x).+$", "lookahead"),
        (r"(?!a)b", "lookahead"),
        (r"(?<=a)b", "lookbehind"),
        (r"(?<!a)b", "lookbehind"),
        (r"(a)\1", "backreference"),
        (r"(?P<x>a)(?P=x)", "named group"),
        (r"(?<n>a)", "named group"),
        (r"(?>a)", "atomic group"),
        (r"(?#c)a", "comment"),
        (r"(?i)abc", "inline flag"),
        (r"(?i:abc)", "inline flag"),
        (r"\bword\b", "word boundary"),
        (r"\p{L}+", "Unicode class"),
        (r"\Aa\Z", "anchor"),
        (r"\Qa\E", "quoting"),
        (r"\ya", r"escape \y"),
        (r"\xg", r"escape \x"),
        (r"a$b", "$ is only supported at the ends"),
        (r"a^b", "^ is only supported at the ends"),
        (r"(^a)b", "^ is only supported at the ends"),
    ],
)
def test_refused_by_name(pattern, name):
    with pytest.raises(RequestError) as error:
        normalise_regex(pattern)
    assert name in str(error.value) and error.value.code == "grammar_error"


@pytest.mark.parametrize("pattern", ["(a", "[a", "a{3,1}", "*", "a**", "a++"])
def test_syntax_errors_carry_the_librarys_message(pattern, accepts):
    with pytest.raises(RequestError, match="regex: "):
        accepts({"regex": pattern}, "a")


TEXTS = [
    *(
        "",
        "a",
        "b",
        "ab",
        "aab",
        "a\nb",
        "\n",
        "é",
        "日本",
        "😀",
        "1",
        "2024-01-31",
        "(123) 456-7890",
        "yes",
        "no",
        "xyz",
    ),
    *(
        "xyy",
        "xyyy",
        "<a>",
        "<\n>",
        "<é日>",
        "ab^",
        "a.b",
        '"x"',
        '"x"y"',
        "0xAf",
        "#00ff00",
        "[",
        "]",
        "-",
        "a-b",
        "$",
        "^",
    ),
]
PATTERNS = [
    *REGEXES.values(),
    *(
        r".*",
        r"[^a]*",
        r"[.]",
        r"\.",
        r"a|b|",
        r"()",
        r"a{2}b?",
        r"(?:ab)+",
        r"^a|b$",
        r"[\w-]+",
        r"[^\n]",
        r"\$|\^",
        r"[]]",
    ),
    *(
        r"a\-b",
        r"\[|\]",
        r"\x61\u00e9?",
        r"[\b]?a",
        r"\d+|é",
        "日.?",
        r"[a-c&&[^b]]?",
        r"[[:alpha:]]?",
        r"(a*)*b",
        r"(a|ab)(c|b)?",
    ),
]


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("pattern", PATTERNS)
def test_only_full_matches_are_accepted(pattern, accepts):
    try:
        taken = [text for text in TEXTS if accepts({"regex": pattern}, text)]
    except RequestError:
        return  # refused by the library itself
    assert [text for text in taken if not re.fullmatch(pattern, text)] == []


def test_no_text_that_is_no_utf8(accepts):
    assert not accepts({"regex": "."}, b"\xed\xa0\x80") and not accepts({"regex": ".*"}, b"\xff")
    assert accepts({"regex": "."}, b"\xed\x9f\xbf")
