"""What a random number is for: independent streams for one output index."""

from __future__ import annotations

from enum import IntEnum


class Purpose(IntEnum):
    """Part of the random key. The values are fixed: changing one changes every seeded result."""

    SAMPLE = 0  # the plain draw of an output token; coupled drafts draw with it too
    RESIDUAL = 1  # the draw from the residual after a rejected draft
    ACCEPT = 2  # the coin that accepts or rejects a draft
    DRAFT = 3  # the draw of a draft that is to be judged by rejection; its lane is the place in its block
