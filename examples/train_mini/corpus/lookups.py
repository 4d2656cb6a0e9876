"""A long list of `name: value` lines, and questions about lines far behind."""

from __future__ import annotations

import random

from examples.train_mini.corpus.document import Document, chat
from examples.train_mini.corpus.stories import story
from examples.train_mini.corpus.vocabulary import ANIMALS, COLORS, NAMES, SURNAMES, WORDS

_FAR = 14  # lines; as a rule more than the window of attention


def lookup_chat(rng: random.Random) -> Document:
    """A list and four to eight questions, now and then with a story between."""
    head, keys, values, what = _list_of_lines(rng, 6, 44)
    places = [rng.randrange(len(keys)) for _ in range(rng.randrange(4, 9))]
    turns = [(f"What is the {what} for {keys[place]}?", values[place]) for place in places]
    filler = story(rng) + "\n" if rng.random() < 0.3 else ""
    turns[0] = (head + filler + turns[0][0], turns[0][1])
    return chat(*turns)


def lookup_task(rng: random.Random) -> tuple[str, str, str]:
    """One question about a line that is at least 14 lines back: question, answer, key."""
    head, keys, values, what = _list_of_lines(rng, 16, 42)
    place = rng.randrange(0, max(1, len(keys) - _FAR))
    return head + f"What is the {what} for {keys[place]}?", values[place], head


def _list_of_lines(rng: random.Random, low: int, high: int) -> tuple[str, list[str], list[str], str]:
    """Text, keys, values, and what the values are called."""
    count, style = rng.randrange(low, high), rng.randrange(3)
    if style == 2:
        keys = rng.sample(WORDS, count)
        values, what = [rng.choice(WORDS) for _ in keys], "word"
    else:
        firsts, seconds = (COLORS, ANIMALS) if style == 0 else (NAMES, SURNAMES)
        keys = rng.sample([f"{first} {second}" for first in firsts for second in seconds], count)
        values = ["".join(rng.choice("0123456789") for _ in range(4)) for _ in keys]
        what = "code" if style == 0 else "number"
    lines = "".join(f"{key}: {value}\n" for key, value in zip(keys, values, strict=True))
    return f"Here is a list of {what}s.\n{lines}", keys, values, what
