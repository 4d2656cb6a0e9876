"""Stop strings in a growing text; cases 06 and 07."""

import random

import pytest

from deepinfer.text.stop_strings import StopStrings


def _run(pieces, stops, **options):
    """Pieces that were sent on, and the match."""
    matcher = StopStrings(stops, **options)
    sent = [matcher.push(piece, number) for number, piece in enumerate(pieces, start=1)]
    return [*sent, matcher.finish()], matcher.match


def test_stop_inside_and_across_tokens():
    sent, match = _run(["ab", "cSTO", "Pde"], ["STOP"])
    assert sent == ["ab", "c", "", ""] and (match.stop, match.num_tokens, match.text_end) == ("STOP", 3, 3)
    sent, match = _run(["ab", "cSTO", "Pde"], ["STOP"], include=True)
    assert "".join(sent) == "abcSTOP" and match.text_end == 7


def test_earliest_completed_match_wins():
    sent, match = _run(["ab", "cSTO", "Pde"], ["OPd", "STOP"])
    assert "".join(sent) == "abc" and match.stop == "STOP"
    sent, match = _run(["xSTOP"], ["TOP", "STOP"])
    assert "".join(sent) == "x" and match.stop == "STOP"  # both end together: the longest


def test_the_outcome_does_not_depend_on_the_tokens():
    text, stops = "abcdabx", ["abcd", "bc", "dabx"]
    outcomes = set()
    for cut in range(1, len(text)):
        sent, match = _run([text[:cut], text[cut:]], stops)
        outcomes.add(("".join(sent), match.stop))
    assert outcomes == {("a", "bc")}


def test_held_text_comes_when_it_cannot_match_any_more():
    sent, match = _run(["S", "T", "x", "ST"], ["STOP"])
    assert sent == ["", "", "STx", "", "ST"] and match is None


def test_no_stops_holds_nothing():
    assert _run(["a", "", "b"], []) == (["a", "", "b", ""], None)


def test_nothing_is_sent_behind_a_match():
    matcher = StopStrings(["X"])
    assert matcher.push("aXb", 1) == "a" and matcher.push("c", 2) == "" and matcher.finish() == ""


@pytest.mark.parametrize(("min_tokens", "ends_at"), [(0, 2), (2, 2), (3, 6), (5, 6), (6, 6), (7, None)])
def test_min_tokens_ignores_earlier_matches(min_tokens, ends_at):
    pieces = ["x", "STOP", "y", "ST", "O", "P", "z"]
    sent, match = _run(pieces, ["STOP"], min_tokens=min_tokens)
    assert (match.num_tokens if match else None) == ends_at
    end = {2: "x", 6: "xSTOPy", None: "".join(pieces)}[ends_at]
    assert "".join(sent) == end


def test_an_ignored_match_is_not_held_back():
    sent, match = _run(["ab", "c", "ab"], ["ab", "abq"], min_tokens=3)
    assert sent == ["", "abc", "", ""] and match.num_tokens == 3


def test_the_work_does_not_grow_with_the_number_of_stop_strings():
    """Counted, not timed: what is looked up per character."""
    rng = random.Random(5)
    stops = ["".join(rng.choice("abcdefgh") for _ in range(40)) for _ in range(2000)]
    matcher, calls = StopStrings(stops), []
    plain = matcher._is_begun
    matcher._is_begun = lambda tail: calls.append(tail) or plain(tail)
    for number in range(500):
        matcher.push(rng.choice("abcdefgh"), number)
    assert matcher.match is None and len(calls) <= 2 * 500
    assert max(map(len, calls)) < 12


def test_random_texts_against_a_plain_search():
    rng = random.Random(3)
    for _ in range(500):
        text = "".join(rng.choice("ab") for _ in range(rng.randrange(1, 25)))
        stops = ["".join(rng.choice("ab") for _ in range(rng.randrange(1, 6))) for _ in range(rng.randrange(1, 9))]
        ends = [(text.find(stop) + len(stop), -len(stop), stop) for stop in stops if stop in text]
        pieces = []
        rest = text
        while rest:
            cut = rng.randrange(1, 5)
            pieces.append(rest[:cut])
            rest = rest[cut:]
        include = rng.random() < 0.5
        sent, match = _run(pieces, stops, include=include)
        if not ends:
            assert "".join(sent) == text and match is None
            continue
        end, minus_length, stop = min(ends)
        assert match.stop == stop and match.text_end == (end if include else end + minus_length)
        assert "".join(sent) == text[: match.text_end]
