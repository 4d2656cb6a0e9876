"""From rows to token ids, sampling parameters and keys."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from deepinfer.batch.input_row import InputRow
from deepinfer.batch.job_manifest import JobManifest
from deepinfer.batch.job_model import JobModel
from deepinfer.batch.prepared_row import PreparedRow
from deepinfer.engine.own_error import own_error
from deepinfer.errors import RequestError
from deepinfer.sampling.seeds import derive_job_seed
from deepinfer.sampling_params import SamplingParams
from deepinfer.text.chat_options import ChatOptions

if TYPE_CHECKING:
    from deepinfer.text.chat_prompt import ChatPrompt


class RowPreparer:
    """Prepares the rows of one job; what is wrong with a row becomes its error."""

    def __init__(self, manifest: JobManifest, model: JobModel) -> None:
        self._model = model
        self._seed = manifest.seed
        self._chat = dict(manifest.chat)
        self._defaults = SamplingParams(**manifest.sampling)
        self._digest = manifest.digest

    def prepare(self, row: InputRow) -> PreparedRow:
        """Ids, parameters and key of a row."""
        try:
            if row.error is not None:
                raise row.error
            params = self._params(row)
            chat = None if row.messages is None else self._render(row)
            if chat is not None and chat.structured_outputs is not None:
                params = _constrained(params, chat.structured_outputs)
            ids = chat.token_ids if chat is not None else self._ids(row.prompt)
            return PreparedRow(row, self._key(row, ids, params.to_dict()), ids, params, chat, None)
        except MemoryError:
            raise  # the machine's, not the row's
        except Exception as error:
            failure = own_error(error, "the row cannot be read", "invalid_row")
            return PreparedRow(row, self._key(row, [], {"error": str(failure)}), [], None, None, failure)

    def _params(self, row: InputRow) -> SamplingParams:
        if "logits_processors" in row.params:
            raise RequestError("logits_processors are Python functions: a row cannot have any", code="invalid_row")
        given = dict(row.params)
        if given.get("seed") is None and given.get("seq_seed") is None:
            given["seed"] = derive_job_seed(self._seed, row.custom_id)
        try:
            return self._defaults.replace(**given)
        except TypeError as error:  # an unknown name, with the nearest known one
            raise RequestError(str(error), code="invalid_sampling_params") from error

    def _render(self, row: InputRow) -> ChatPrompt:
        try:
            options = ChatOptions.of({**self._chat, **row.chat})
        except TypeError as error:
            raise RequestError(str(error), code="invalid_chat_options") from error
        return self._model.chat_format.render(row.messages, options)

    def _ids(self, prompt: Any) -> list[int]:
        """Ids of a prompt; those that were given are judged by the engine, save for what is no integer at all."""
        if isinstance(prompt, str):
            return self._model.tokenizer.encode_prompt(prompt)
        for place, item in enumerate(prompt):
            if not isinstance(item, int) or isinstance(item, bool):
                message = f"the prompt is a list, but {item!r:.80} at place {place} is no token id"
                raise RequestError(message, code="invalid_token_id")
        return list(prompt)

    def _key(self, row: InputRow, ids: list[int], params: dict[str, Any]) -> str:
        content = json.dumps([self._digest, row.custom_id, ids, params], sort_keys=True, default=str)
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _constrained(params: SamplingParams, grammar: dict[str, Any]) -> SamplingParams:
    """The parameters with the grammar of the response format."""
    if params.structured_outputs is not None:
        message = "both response_format and structured_outputs are given: leave one of them out"
        raise RequestError(message, code="invalid_sampling_params")
    return params.replace(structured_outputs=grammar)
