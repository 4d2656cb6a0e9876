"""A generated document of any kind."""

from __future__ import annotations

import random

from examples.train_mini.corpus.document import Document
from examples.train_mini.corpus.lookups import lookup_chat
from examples.train_mini.corpus.small_talk import talk
from examples.train_mini.corpus.stories import story_document
from examples.train_mini.corpus.tasks import task_chat
from examples.train_mini.corpus.whereabouts import whereabouts_chat

_SHARES = ((0.30, task_chat), (0.62, lookup_chat), (0.74, whereabouts_chat), (0.96, story_document), (1.0, talk))


def synthetic_document(rng: random.Random) -> Document:
    """30 % tasks, 32 % look-ups, 12 % whereabouts, 22 % stories, 4 % talk."""
    place = rng.random()
    return next(make for bound, make in _SHARES if place < bound)(rng)
