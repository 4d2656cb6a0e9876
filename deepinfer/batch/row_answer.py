"""What came out of a row, still to be written."""

from __future__ import annotations

from dataclasses import dataclass

from deepinfer.batch.prepared_row import PreparedRow
from deepinfer.outputs import CompletionOutput, PromptLogprobList, RequestFailure


@dataclass(frozen=True, slots=True)
class RowAnswer:
    """An answer or a failure; nothing in it depends on clocks, neighbours or the worker.

    Attributes:
        prepared: the row.
        completions: by index; empty for a failed row.
        num_prompt_tokens, num_generated_tokens: the latter over all completions.
        failure: None when all is well.
        prompt_logprobs: where they were asked for.
    """

    prepared: PreparedRow
    completions: tuple[CompletionOutput, ...]
    num_prompt_tokens: int
    num_generated_tokens: int
    failure: RequestFailure | None
    prompt_logprobs: PromptLogprobList | None = None

    @classmethod
    def failed(cls, prepared: PreparedRow, failure: RequestFailure) -> RowAnswer:
        """Of a row that has no answer."""
        return cls(prepared, (), len(prepared.token_ids), 0, failure)
