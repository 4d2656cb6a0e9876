"""What a checkpoint's generation_config.json says: default sampling parameters, further EOS ids, chat defaults."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deepinfer.config.strict_json import read_json_object
from deepinfer.errors import CheckpointError, RequestError
from deepinfer.sampling_params import SamplingParams
from deepinfer.shown_value import shown_value
from deepinfer.text.chat_defaults import ChatDefaults

_FIELDS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "repetition_penalty": "repetition_penalty",
    "max_new_tokens": "max_tokens",
}


@dataclass(frozen=True, slots=True)
class GenerationDefaults:
    """Made by `read`.

    Attributes:
        params: used where a call gives no sampling parameters.
        eos_token_ids: EOS ids of the file, to be joined with those of config.json.
        chat: whether and how hard the model thinks where a chat call leaves it open.
    """

    params: SamplingParams = field(default_factory=SamplingParams)
    eos_token_ids: tuple[int, ...] = ()
    chat: ChatDefaults = field(default_factory=ChatDefaults)

    @classmethod
    def read(cls, directory: Path, *, use_params: bool, vocab_size: int) -> GenerationDefaults:
        """Read ``generation_config.json``; an absent file means class defaults.

        Args:
            directory: of the checkpoint.
            use_params: False: the sampling fields are ignored, EOS ids and chat defaults are not.
            vocab_size: the model's; EOS ids lie below it.

        Raises CheckpointError naming the file when it is not valid.
        """
        file = directory / "generation_config.json"
        if not os.path.isfile(file):
            return cls()
        data = read_json_object(file, CheckpointError)
        try:
            params = _params(data) if use_params else SamplingParams()
            eos_token_ids = _eos(data.get("eos_token_id"), vocab_size)
            return cls(params, eos_token_ids, ChatDefaults.from_dict(data.get("chat_defaults")))
        except (ValueError, RequestError) as error:
            raise CheckpointError(f"{file}: {error}") from error


def _params(data: dict[str, Any]) -> SamplingParams:
    values = {name: data[key] for key, name in _FIELDS.items() if data.get(key) is not None}
    if data.get("do_sample") is False:
        values["temperature"] = 0.0
    return SamplingParams(**values)


def _eos(value: Any, vocab_size: int) -> tuple[int, ...]:
    ids = [] if value is None else value if isinstance(value, list) else [value]
    if any(type(item) is not int or not 0 <= item < vocab_size for item in ids):
        raise ValueError(
            f"eos_token_id = {shown_value(value)}: expected an id or a list of ids below vocab_size ({vocab_size})"
        )
    return tuple(ids)
