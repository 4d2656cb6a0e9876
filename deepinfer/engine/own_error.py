"""Whatever a caller's own objects raise while one request is read becomes that request's error."""

from __future__ import annotations

import traceback

from deepinfer.errors import DeepInferError, RequestError


def own_error(error: Exception, what: str, code: str) -> DeepInferError:
    """The error of one request.

    Args:
        error: a DeepInferError is returned as it is; anything else is named in a RequestError's message.
        what: what could not be done, for example "the prompt cannot be read".
        code: of the RequestError.
    """
    if isinstance(error, DeepInferError):
        return error
    named = "".join(traceback.format_exception_only(error)).strip()  # also where str(error) raises
    wrapped = RequestError(f"{what}: {named}", code=code)
    wrapped.__cause__ = error
    return wrapped
