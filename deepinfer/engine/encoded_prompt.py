"""A prompt after encoding: its ids, and its text when it had one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deepinfer.engine.prefix_handle import PrefixHandle


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """Filled by the prompt encoder.

    Attributes:
        text: the text as given; None when only ids were given.
        prefix: saved prefix that the prompt may begin on, None without one.
        token_ids: int32 [prompt_len], every id in range, at least one.
    """

    text: str | None
    token_ids: np.ndarray
    prefix: PrefixHandle | None = None
