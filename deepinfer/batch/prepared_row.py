"""A row that is ready to be computed, or known to fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deepinfer.batch.input_row import InputRow
from deepinfer.errors import DeepInferError
from deepinfer.outputs import RequestFailure
from deepinfer.sampling_params import SamplingParams

if TYPE_CHECKING:
    from deepinfer.text.chat_prompt import ChatPrompt


@dataclass(frozen=True, slots=True)
class PreparedRow:
    """Made by `RowPreparer`.

    Attributes:
        row: as it was read.
        key: 16 hexadecimal digits of what the result depends on.
        token_ids: the prompt; empty when there is an error.
        params: every sampling parameter; None when there is an error.
        chat: the rendered conversation; None for a prompt.
        error: why the row cannot be computed.
    """

    row: InputRow
    key: str
    token_ids: list[int]
    params: SamplingParams | None
    chat: ChatPrompt | None
    error: DeepInferError | None

    def known_failure(self, limit: int) -> str | None:
        """Code of the error that the row ends with, as far as that is known without the engine; None when it may run.

        Args:
            limit: max_model_len.
        """
        if self.error is not None:
            return RequestFailure.from_exception(self.error).code
        if not self.token_ids:
            return "empty_prompt"
        return "prompt_too_long" if len(self.token_ids) > limit else None

    def num_allowed_tokens(self, limit: int) -> int:
        """New tokens that the row may get, over all its completions; 0 for a row that cannot be computed.

        Args:
            limit: max_model_len.
        """
        if self.params is None:
            return 0
        room = max(limit - len(self.token_ids), 0)
        return self.params.n * (room if self.params.max_tokens is None else min(self.params.max_tokens, room))
