"""The accepted forms of a prompt, turned into validated token ids."""

from __future__ import annotations

import numbers
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from deepinfer.engine.encoded_prompt import EncodedPrompt
from deepinfer.engine.own_error import own_error
from deepinfer.engine.prefix_handle import PrefixHandle
from deepinfer.errors import DeepInferError, RequestError, UnsupportedFeatureError
from deepinfer.text.tokenizer import Tokenizer

_TEXT, _IDS, _PREFIX = "prompt", "prompt_token_ids", "prefix"
_IMAGE_KEYS = frozenset({"multi_modal_data", "images", "image", "image_bytes"})
_FORMS = 'a text, a list of ids, {"prompt": text} or {"prompt_token_ids": ids}, also with a "prefix"'
_BYTES = (bytes, bytearray, memoryview)  # neither a text (which encoding?) nor ids


class PromptEncoder:
    """Encodes single prompts: texts get BOS unless they have it, ids are taken as they are.

    Ids are a sequence of integers, or a flat integer array of numpy or torch. Bytes are refused. What a prompt's own
    methods raise while it is read is the error of this prompt.
    """

    def __init__(self, tokenizer: Tokenizer, vocab_size: int, image_token_id: int | None) -> None:
        """Args:
        tokenizer: of the checkpoint.
        vocab_size: rows of the embedding; ids of padded rows behind the tokenizer's end are refused.
        image_token_id: placeholder of an image, refused as long as images are.
        """
        self._tokenizer = tokenizer
        self._num_ids = min(vocab_size, tokenizer.size)
        self._image_token_id = image_token_id

    def encode(self, prompt: Any) -> EncodedPrompt:
        """Raises RequestError (codes invalid_prompt, invalid_token_id, token_id_out_of_range, empty_prompt,
        image_not_supported) or UnsupportedFeatureError for image data. An error in place of a prompt is raised.
        """
        if isinstance(prompt, DeepInferError):
            raise prompt
        prefix, prompt = _without_prefix(prompt)
        text, ids = _read(prompt)
        if ids is not None:
            return EncodedPrompt(text, self.check_ids(ids), prefix)
        assert text is not None
        return EncodedPrompt(text, self.check_ids(self._tokenizer.encode_prompt(text)), prefix)

    def encode_pair(self, context: Any, continuation: Any) -> tuple[EncodedPrompt, int]:
        """A context and its continuation as one prompt, and the position at which the continuation starts.

        Two texts are split as lm-evaluation-harness does; ids are joined as they are. Raises as `encode` does, and
        code empty_context when nothing stands before the continuation's first token.
        """
        text, ids = _read(_no_prefix(context))
        more_text, more_ids = _read(_no_prefix(continuation))
        if ids is None and more_ids is None:
            assert text is not None and more_text is not None
            head, tail = self._tokenizer.encode_pair(text, more_text)
            if more_text and not tail:
                message = (
                    f"the continuation {more_text!r} has no token of its own: it merges into the context's last one"
                )
                raise RequestError(message, code="empty_continuation")
            return EncodedPrompt(text + more_text, self.check_ids([*head, *tail])), len(head)
        first = ids if ids is not None else self._tokenizer.encode_prompt(text or "")
        second = more_ids if more_ids is not None else self._tokenizer.encode(more_text or "")
        if not len(first):
            raise RequestError("the context is empty: give at least one id, for example BOS", code="empty_context")
        return EncodedPrompt(None, self.check_ids([*first, *second])), len(first)

    def check_ids(self, ids: Any) -> np.ndarray:
        """Token ids as int32 [n]; only integers in range pass (no bool, no float)."""
        array = _integers(ids)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            kind = f"{array.dtype} array of shape {array.shape}"
            raise RequestError(f"prompt ids must be a flat list of integers, not a {kind}", code="invalid_token_id")
        if array.size == 0:
            raise RequestError("the prompt is empty: give at least one token", code="empty_prompt")
        self._check_range(array)
        return array.astype(np.int32)

    def _check_range(self, array: np.ndarray) -> None:
        outside = np.flatnonzero((array < 0) | (array >= self._num_ids))
        if outside.size:
            place = int(outside[0])
            raise RequestError(
                f"prompt_token_ids[{place}] is {array[place]}; ids go from 0 to {self._num_ids - 1}",
                code="token_id_out_of_range",
            )
        if self._image_token_id is not None and (array == self._image_token_id).any():
            raise RequestError(
                f"the prompt holds the image placeholder's id {self._image_token_id}; image input is not built yet",
                code="image_not_supported",
            )


def split_prompts(prompts: Any, prompt_token_ids: Any = None) -> list[Any]:
    """The single prompts of a call: one prompt alone counts as a list of one.

    `prompt_token_ids` is the keyword of older scripts; with both, the ids win and the texts are kept beside them.
    Raises RequestError when neither is given or their lengths differ.
    """
    texts = None if prompts is None else _as_list(prompts)
    if prompt_token_ids is None:
        if texts is None:
            raise RequestError("no prompts: pass prompts or prompt_token_ids", code="no_prompts")
        return texts
    ids = _as_list(prompt_token_ids)
    if texts is None:
        return [{_IDS: item} for item in ids]
    if len(texts) != len(ids):
        message = f"{len(texts)} prompts but {len(ids)} prompt_token_ids: give one of them per prompt"
        raise RequestError(message, code="length_mismatch")
    return [{_TEXT: text if isinstance(text, str) else None, _IDS: item} for text, item in zip(texts, ids, strict=True)]


def prompt_text(prompt: Any) -> str | None:
    """The text of a prompt in any form, also of a wrong one; None without text."""
    try:
        text = prompt.get(_TEXT) if isinstance(prompt, Mapping) else prompt
        return _plain(text) if isinstance(text, str) else None
    except Exception:  # a mapping that cannot be read: `encode` says so
        return None


def _as_list(prompts: Any) -> list[Any]:
    if isinstance(prompts, (str, Mapping)):
        return [prompts]
    if not isinstance(prompts, Iterable) or isinstance(prompts, _BYTES) or _num_dims(prompts) == 0:
        raise RequestError(
            f"prompts is a {type(prompts).__name__}; expected {_FORMS}, or a list of such", code="invalid_prompt"
        )
    if _num_dims(prompts) == 1 and not (isinstance(prompts, np.ndarray) and prompts.dtype.kind in "OSU"):
        return [prompts]
    items = list(prompts)
    is_one = bool(items) and all(issubclass(type(item), numbers.Number) for item in items)
    return [items] if is_one else items


def _num_dims(prompts: Any) -> int | None:
    """Dimensions of an array; None for anything else."""
    return prompts.ndim if isinstance(prompts, (np.ndarray, torch.Tensor)) else None


def _read(prompt: Any) -> tuple[str | None, np.ndarray | None]:
    """Text and ids of one prompt; at least one of them is not None. Raises RequestError or UnsupportedFeatureError."""
    try:
        text, ids = _split(prompt)
        return text, None if ids is None else _integers(ids)
    except DeepInferError:
        raise
    except Exception as error:
        raise own_error(error, "the prompt cannot be read", "invalid_prompt") from error


def _without_prefix(prompt: Any) -> tuple[PrefixHandle | None, Any]:
    """The saved prefix of a prompt that names one, and the prompt without it. Raises RequestError."""
    if not isinstance(prompt, Mapping):
        return None, prompt
    try:
        rest = dict(prompt.items())
    except Exception as error:
        raise own_error(error, "the prompt cannot be read", "invalid_prompt") from error
    prefix = rest.pop(_PREFIX, None)
    if prefix is not None and not isinstance(prefix, PrefixHandle):
        message = f'"prefix" must come from LLM.save_prefix, not be a {type(prefix).__name__}'
        raise RequestError(message, code="invalid_prompt")
    return prefix, rest


def _no_prefix(prompt: Any) -> Any:
    """A prompt to be scored. Raises RequestError when it names a saved prefix."""
    prefix, rest = _without_prefix(prompt)
    if prefix is not None:
        message = "score: the tokens of a saved prefix are not computed again, so they cannot be judged; leave it out"
        raise RequestError(message, code="prefix_without_scores")
    return rest


def _split(prompt: Any) -> tuple[str | None, Any]:
    if isinstance(prompt, str):
        return _plain(prompt), None
    if _can_be_ids(prompt):
        return None, prompt
    if not isinstance(prompt, Mapping):
        raise RequestError(f"a prompt cannot be a {type(prompt).__name__}: give {_FORMS}", code="invalid_prompt")
    for key, value in prompt.items():
        if key in _IMAGE_KEYS and not _is_absent(value):
            raise UnsupportedFeatureError(f"{key}: image input is not built yet; leave it out")
        if key not in (_TEXT, _IDS) and key not in _IMAGE_KEYS:
            raise RequestError(f"unknown prompt key {key!r}: give {_FORMS}", code="invalid_prompt")
    text, ids = prompt.get(_TEXT), prompt.get(_IDS)
    if text is not None and not isinstance(text, str):
        raise RequestError(f'"prompt" must be a text, not a {type(text).__name__}', code="invalid_prompt")
    if text is None and ids is None:
        raise RequestError(f"the prompt holds neither text nor ids: give {_FORMS}", code="invalid_prompt")
    if ids is not None and not _can_be_ids(ids):
        raise RequestError(
            f'"prompt_token_ids" must be a list of ids, not a {type(ids).__name__}', code="invalid_prompt"
        )
    return None if text is None else _plain(text), ids


def _plain(text: str) -> str:
    """The characters of a text, without what a subclass makes of them."""
    return str.__str__(text)


def _can_be_ids(value: Any) -> bool:
    return isinstance(value, (np.ndarray, torch.Tensor, Sequence)) and not isinstance(value, (str, *_BYTES))


def _is_absent(value: Any) -> bool:
    """Whether an image field says "no image": None, False or an empty list, mapping or text."""
    return value is None or (isinstance(value, (bool, list, tuple, dict, str, bytes)) and not value)


def _integers(ids: Any) -> np.ndarray:
    """Ids as an array; of a list int64 [n], its elements checked."""
    if isinstance(ids, torch.Tensor):
        if ids.is_floating_point() or ids.is_complex():
            raise RequestError(f"prompt ids must be integers, not {ids.dtype}", code="invalid_token_id")
        return ids.detach().cpu().numpy()
    if isinstance(ids, np.ndarray):
        return np.asarray(ids)
    items = list(ids)
    kinds = set(map(type, items))
    if not all(issubclass(kind, (int, np.integer)) and kind is not bool for kind in kinds):
        place, wrong = next(
            (i, x) for i, x in enumerate(items) if type(x) is bool or not issubclass(type(x), (int, np.integer))
        )
        raise RequestError(
            f"prompt_token_ids[{place}] is {reprlib.repr(wrong)}: ids are integers", code="invalid_token_id"
        )
    try:
        return np.asarray(items, dtype=np.int64)
    except OverflowError:
        raise RequestError("prompt_token_ids holds an integer beyond 64 bits", code="token_id_out_of_range") from None
