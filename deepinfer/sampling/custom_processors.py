"""A request's own `logits_processors`: called one after the other, their mistakes kept to that request."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from deepinfer.errors import RequestError


class CustomProcessors:
    """Calls ``processor(generated_ids, row)`` or ``processor(prompt_ids, generated_ids, row)``.

    Args:
        processors: callables; the number of their positional parameters says which form they want.
        prompt_ids: ids of the prompt.
    """

    def __init__(self, processors: Sequence[Callable[..., Any]], prompt_ids: np.ndarray) -> None:
        self._processors = [(processor, _takes_prompt(processor)) for processor in processors]
        self._prompt_ids = prompt_ids.tolist()

    def apply(self, row: torch.Tensor, generated: Sequence[int] | np.ndarray) -> None:
        """Change float32 [V] logits in place. Tokens that are -inf already stay so.

        Raises RequestError "logits_processor_error" for an exception, a wrong shape, NaN or +inf.
        """
        banned = row == -torch.inf
        generated_ids = [int(token_id) for token_id in generated]
        for place, (processor, takes_prompt) in enumerate(self._processors):
            arguments = (list(self._prompt_ids), list(generated_ids)) if takes_prompt else (list(generated_ids),)
            try:
                result = processor(*arguments, row.clone())
            except Exception as error:
                raise _error(place, f"{type(error).__name__}: {error}") from error
            if not isinstance(result, torch.Tensor) or result.shape != row.shape:
                found = tuple(result.shape) if isinstance(result, torch.Tensor) else type(result).__name__
                raise _error(place, f"it must return a tensor of shape {tuple(row.shape)}, not {found}")
            row.copy_(result)
            row.masked_fill_(banned, -torch.inf)
            if bool((torch.isnan(row) | (row == torch.inf)).any()):
                raise _error(place, "it returned NaN or +inf")


def _error(place: int, message: str) -> RequestError:
    return RequestError(f"logits_processors[{place}] failed: {message}", code="logits_processor_error")


def _takes_prompt(processor: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(processor).parameters.values()
    except (TypeError, ValueError):
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(item.kind in kinds and item.default is inspect.Parameter.empty for item in parameters) >= 3
