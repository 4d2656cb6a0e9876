"""Definitions, kinds and opposites from the data files of WordNet (package wordnet-base of Debian)."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

from examples.train_mini.corpus.document import Document, chat, is_held_out, plain

_KINDS = {"noun": "noun", "verb": "verb", "adj": "adjective", "adv": "adverb"}
_LONGEST_WORD = 12

Question = tuple[str, str, str]


def definition_documents(folder: Path, rng: random.Random) -> Iterator[tuple[bool, Document]]:
    """(held out, document) for every set of synonyms; `folder` has data.noun and its like."""
    for part, lemmas, meaning, examples in _synonym_sets(folder):
        word = lemmas[0]
        style = rng.random()
        also = f" Also called {', '.join(lemmas[1:4])}." if len(lemmas) > 1 else ""
        example = f" For example: {examples[0]}." if examples else ""
        if style < 0.45:
            document = plain(f"{word}: {meaning}.{example}{also}")
        elif style < 0.6:
            document = plain(f"{word} ({_KINDS[part]}): {meaning}.{example}")
        else:
            document = chat((_definition_question(rng, part, word), f"{word}: {meaning}.{example}"))
        yield is_held_out("wn" + word + meaning, 50), document


def kind_questions(folder: Path, rng: random.Random, count: int) -> list[Question]:
    """(question, answer, key): of what kind a thing is."""
    words, above, _ = _graph(folder)
    usable = [key for key in above if _is_short(words[key][0])]
    pool = [words[above[key]][0] for key in usable]
    questions = []
    for _ in range(count):
        key = rng.choice(usable)
        word, kind = words[key][0], words[above[key]][0]
        if rng.random() < 0.5:
            asked, answer = f"What kind of thing is {_a(word)}?", f"{_a(word).capitalize()} is a kind of {kind}."
        elif rng.random() < 0.5:
            asked, answer = f"Is {_a(word)} a kind of {kind}?", "Yes."
        else:
            asked, answer = f"Is {_a(word)} a kind of {rng.choice(pool)}?", "No."
        questions.append((asked, answer, f"isa{word}"))
    return questions


def opposite_questions(folder: Path) -> list[Question]:
    """(question, answer, key) of adjectives."""
    pairs = [(a, b) for a, b in _graph(folder)[2] if a.islower() and b.islower() and max(len(a), len(b)) < 14]
    return [(f"What is the opposite of {a}?", f"The opposite of {a} is {b}.", f"opp{a}{b}") for a, b in pairs]


def _definition_question(rng: random.Random, part: str, word: str) -> str:
    forms = [f"What does {word} mean?", f"Define {word}.", f"What is the meaning of {word}?"]
    forms.append(f"What is {_a(word)}?" if part == "noun" and word.islower() else f'What does "{word}" mean?')
    return rng.choice(forms)


def _synonym_sets(folder: Path) -> Iterator[tuple[str, list[str], str, list[str]]]:
    """(part of speech, words, meaning, examples)."""
    for part in _KINDS:
        for line in _lines(folder, part):
            left, _, gloss = line.partition("|")
            if gloss:
                meaning = re.split(r';\s*"', gloss)[0].strip().strip(";").strip()
                yield part, _lemmas(left.split()), meaning, re.findall(r'"([^"]+)"', gloss)


def _graph(folder: Path) -> tuple[dict[str, list[str]], dict[str, str], list[tuple[str, str]]]:
    """Words of nouns by their key, key -> key of what it is a kind of, pairs of opposite adjectives."""
    nouns: dict[str, list[str]] = {}
    above: dict[str, str] = {}
    opposites = []
    for part in ("noun", "adj"):
        entries = [line.split("|")[0].split() for line in _lines(folder, part)]
        words = {fields[0]: _lemmas(fields) for fields in entries}
        for fields in entries:
            for symbol, target, kind, places in _pointers(fields):
                if target not in words:
                    continue
                if part == "noun" and symbol == "@" and kind == "n":
                    above.setdefault(fields[0], target)
                if part == "adj" and symbol == "!" and kind == "a" and places != "0000":
                    a, b = int(places[:2], 16) - 1, int(places[2:], 16) - 1
                    opposites.append((words[fields[0]][a], words[target][b]))
        nouns = words if part == "noun" else nouns
    return nouns, above, opposites


def _lines(folder: Path, part: str) -> list[str]:
    """Without the licence at the beginning."""
    text = (folder / f"data.{part}").read_text(encoding="latin1")
    return [line for line in text.splitlines() if not line.startswith("  ")]


def _lemmas(fields: list[str]) -> list[str]:
    count = int(fields[3], 16)
    return [re.sub(r"\((a|p|ip)\)$", "", fields[4 + 2 * i]).replace("_", " ") for i in range(count)]


def _pointers(fields: list[str]) -> list[tuple[str, ...]]:
    first = 4 + 2 * int(fields[3], 16)
    return [tuple(fields[first + 1 + 4 * i : first + 5 + 4 * i]) for i in range(int(fields[first]))]


def _a(word: str) -> str:
    return ("an " if word[0].lower() in "aeiou" else "a ") + word


def _is_short(word: str) -> bool:
    return word[0].islower() and " " not in word and len(word) < _LONGEST_WORD
