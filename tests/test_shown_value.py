"""Values in error messages: short, and never an error of their own."""

from deepinfer.shown_value import shown_value


class _Broken:
    def __repr__(self):
        raise RuntimeError("no")


def test_ordinary_values_are_their_repr():
    for value in (1, -(2**64), 1.5, "a\0b", None, [1, {"a": (2,)}]):
        assert shown_value(value) == repr(value)


def test_what_cannot_be_written_is_named():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert shown_value(10**5000) == "an integer of 16610 bits"
    assert shown_value([10**5000]) == "a list that cannot be shown"
    assert shown_value(deep) == "a list that cannot be shown"
    assert shown_value(_Broken()) == "a _Broken that cannot be shown"


def test_long_values_lose_their_middle():
    text = shown_value("a" * 5000 + "b")
    assert len(text) < 350 and text.startswith("'aaa") and text.endswith("ab'") and "more" in text
