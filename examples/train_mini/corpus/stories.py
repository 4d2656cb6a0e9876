"""Little stories from a small grammar."""

from __future__ import annotations

import random
from typing import Final

from examples.train_mini.corpus.document import Document, chat, plain
from examples.train_mini.corpus.vocabulary import ADJECTIVES, ANIMALS, COLORS, FRUITS, PLACES, THINGS

# What the hero wants, does, sees, and has done in the end.
_WISHES: Final = (
    ("find {o}", "looked behind the trees", "There it was, under a leaf", "found {o}"),
    ("bake a cake", "mixed flour, milk and honey", "The kitchen smelled sweet", "baked a cake"),
    ("cross the river", "built a small boat out of wood", "The boat did not sink", "crossed the river"),
    ("learn a song", "listened to the birds all morning", "The song was short and bright", "learned a song"),
    ("see the moon", "climbed the highest hill", "The moon was round and white", "saw the moon"),
    ("build a house", "carried stones and wood every day", "The roof was a little crooked", "built a house"),
    ("make a new friend", "walked through the {p} and said hello", "Someone smiled back", "made a new friend"),
    ("win the race", "ran around the {p} every morning", "Nobody was faster that day", "won the race"),
    ("sleep", "counted the stars one by one", "The night was warm and quiet", "fell asleep"),
    ("fix {o}", "borrowed a hammer and some nails", "It took the whole afternoon", "fixed {o}"),
)
_PROBLEMS: Final = (
    "But it started to rain.",
    "But the wind was strong.",
    "But it was dark in the {p}.",
    "But the way was long.",
    "But nobody was at home.",
    "But the {b} laughed and said it was impossible.",
    "But the snow was deep.",
)
_HELPERS: Final = (
    'Then a {a2} {b} came along and asked, "Can I help you?"',
    "A {a2} {b} heard about it and offered to help.",
    'The next day a {a2} {b} stopped and said, "We can do it together."',
)
_THANKS: Final = (
    '"Thank you," said the {a}.',
    "The {a} was very grateful.",
    '"You are a good friend," said the {a}.',
)
_ENDS: Final = (
    "From that day on, the {a} and the {b} were friends.",
    "In the evening they ate {f}s and told stories.",
    "They went home together, tired but happy.",
    "And the {a} never forgot that day.",
    "The {a} kept a {c} {t} to remember it.",
)
_STARTS: Final = (
    "Once upon a time there was a {a1} {a} who lived near the {p}.",
    "There was once a {a1} {a}.",
    "A {a1} {a} lived in a small house by the {p}.",
    "Long ago, a {a1} {a} lived behind the {p}.",
)
_DREAMS: Final = (
    "One day the {a} wanted to {w}.",
    "Every day the {a} dreamed of one thing: to {w}.",
    "One morning the {a} decided to {w}.",
)


def story(rng: random.Random, animal: str | None = None) -> str:
    """A story about an animal, any if None."""
    hero = animal or rng.choice(ANIMALS)
    friend = rng.choice([name for name in ANIMALS if name != hero])
    fill = {"a": hero, "b": friend, "a1": rng.choice(ADJECTIVES), "a2": rng.choice(ADJECTIVES)}
    fill |= {"p": rng.choice(PLACES), "t": rng.choice(THINGS), "c": rng.choice(COLORS), "f": rng.choice(FRUITS)}
    fill["o"] = f"the {fill['c']} {fill['t']}"
    wish, tried, result, done = (text.format(**fill) for text in rng.choice(_WISHES))
    lines = [
        rng.choice(_STARTS),
        rng.choice(_DREAMS),
        rng.choice(_PROBLEMS),
        rng.choice(_HELPERS),
        rng.choice(("Together they {tried}.", "The {a} and the {b} {tried}.")),
        rng.choice(("{result}.", "At last it worked. {result}.")),
        rng.choice(("So the {a} {done}.", "In the end the {a} {done}.")),
        rng.choice(_THANKS),
        rng.choice(_ENDS),
    ]
    if rng.random() < 0.3:
        lines.pop(2)
    return " ".join(lines).format(**fill, w=wish, tried=tried, result=result, done=done)


def story_document(rng: random.Random) -> Document:
    """A story, as a text or asked for."""
    animal = rng.choice(ANIMALS)
    if rng.random() < 0.4:
        return plain(story(rng, animal))
    about = f"about {'an' if animal[0] in 'aeiou' else 'a'} {animal}"
    forms = ("Tell me a story {about}.", "Write a short story {about}.", "Tell me a story {about}.", "Tell me a story.")
    form = rng.choice(forms)
    return chat((form.format(about=about), story(rng, animal if "{about}" in form else None)))
