"""A document is a list of texts, each with whether the model is trained to write it."""

from __future__ import annotations

import zlib
from typing import Final

BOS: Final = "<｜begin▁of▁sentence｜>"
EOS: Final = "<｜end▁of▁sentence｜>"
USER: Final = "<｜User｜>"
ASSISTANT: Final = "<｜Assistant｜>"
THINK_END: Final = "</think>"
SPECIAL_TOKENS: Final = (
    BOS,
    EOS,
    "<｜▁pad▁｜>",
    USER,
    ASSISTANT,
    "<｜System｜>",
    "<think>",
    THINK_END,
    "｜DSML｜",
    "<｜latest_reminder｜>",
    "<tool_result>",
    "</tool_result>",
    "<｜image｜>",
    "<｜dspark▁noise｜>",
)

Document = list[tuple[str, bool]]
Turn = tuple[str, str]


def question(text: str) -> str:
    """One user turn with the marker behind which the answer stands; thinking is switched off."""
    return USER + text + ASSISTANT + THINK_END


def chat(*turns: Turn) -> Document:
    """Turns of (question, answer); only the answers are learnt."""
    parts: Document = []
    for asked, answer in turns:
        parts += [(question(asked), False), (answer + EOS, True)]
    return parts


def plain(text: str) -> Document:
    """A text that is learnt as a whole."""
    return [(text + EOS, True)]


def is_held_out(key: str, part: int = 25) -> bool:
    """Whether one in `part` keys, always the same ones, is kept out of training."""
    return zlib.crc32(key.encode()) % part == 0
