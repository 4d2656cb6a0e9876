"""The sampling parameters of a call, one per prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deepinfer.engine.own_error import own_error
from deepinfer.errors import DeepInferError, RequestError
from deepinfer.sampling_params import SamplingParams

_FORMS = "SamplingParams, a mapping of its fields, or a list with one of them (or None) per prompt"


def params_per_prompt(params: Any, num_prompts: int, default: SamplingParams) -> list[SamplingParams | DeepInferError]:
    """One entry per prompt; a wrong entry of a list becomes the error of its own request.

    Args:
        params: what the caller gave: None, one for all, or a list, in which errors found earlier stay as they are.
        num_prompts: prompts of the call.
        default: stands for None.

    Raises RequestError for a list of another length, for one wrong value for all, and for anything else.
    """
    if params is None:
        return [default] * num_prompts
    if isinstance(params, (SamplingParams, Mapping)):
        return [_checked(params)] * num_prompts
    if not isinstance(params, Sequence) or isinstance(params, (str, bytes)):
        message = f"sampling_params is a {type(params).__name__}; expected {_FORMS}"
        raise RequestError(message, code="invalid_sampling_params")
    if len(params) != num_prompts:
        message = f"{num_prompts} prompts but {len(params)} sampling_params: give one for all, or one per prompt"
        raise RequestError(message, code="length_mismatch")
    return [default if item is None else _checked_or_error(item) for item in params]


def _checked(params: Any) -> SamplingParams:
    if isinstance(params, Mapping):
        return SamplingParams(**params)
    if not isinstance(params, SamplingParams):
        message = f"sampling_params holds a {type(params).__name__}; expected SamplingParams or a mapping of its fields"
        raise RequestError(message, code="invalid_sampling_params")
    return params


def _checked_or_error(params: Any) -> SamplingParams | DeepInferError:
    if isinstance(params, DeepInferError):
        return params
    try:
        return _checked(params)
    except TypeError as error:  # an unknown name
        return RequestError(str(error), code="invalid_sampling_params")
    except Exception as error:
        return own_error(error, "these sampling_params cannot be read", "invalid_sampling_params")
