"""How one request is sampled and when it stops: the public class SamplingParams."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, NoReturn

from deepinfer.errors import RequestError
from deepinfer.frozen_value import thaw
from deepinfer.sampling_param_checks import CHECKS, bad_value

_GREEDY_BELOW: Final = 1e-5
_ALIASES: Final[Mapping[str, str]] = {"seq_seed": "seed", "top_logprobs": "logprobs", "so_args": "structured_outputs"}


def _canonical(values: dict[str, Any], others: dict[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Resolve aliases; refuse names that are neither a field nor an alias."""
    for name, value in others.items():
        if name not in _ALIASES:
            near = difflib.get_close_matches(name, [*CHECKS, *_ALIASES], n=1, cutoff=0.0)
            raise TypeError(f"SamplingParams has no parameter {name!r}; did you mean {near[0]!r}?")
        field = _ALIASES[name]
        if values[field] != defaults[field]:
            raise TypeError(f"SamplingParams got both {field!r} and its alias {name!r}; give one of them")
        values[field] = value
    return values


class SamplingParams:
    """Sampling parameters of one request. Immutable at every level; use `replace` for a changed copy.

    What is given is copied: later changes of the caller's dicts and lists have no effect. Mappings read back as
    read-only mappings, lists as tuples; `to_dict` gives plain ones.

    Aliases accepted by the constructor: ``seq_seed`` (seed), ``top_logprobs`` (logprobs), ``so_args``
    (structured_outputs). The order in which the fields act is that of `deepinfer.sampling.Sampler`.

    Attributes:
        n: completions per prompt, >= 1, on one prefill; each has its own seed, and completion 0 equals n = 1.
        temperature: >= 0; below 1e-5 is greedy (argmax, lowest id on ties).
        top_p: (0, 1]; keeps the smallest prefix of the ranked tokens whose mass exceeds it. 1 is off.
        top_k: keeps the k best tokens; -1 or 0 is off (stored as -1). 1 is greedy.
        min_p: [0, 1]; drops tokens less likely than this share of the best token's probability.
        presence_penalty: [-2, 2]; subtracted once from tokens that were generated.
        frequency_penalty: [-2, 2]; subtracted per occurrence among the generated tokens.
        repetition_penalty: [0.01, 100]; divides positive and multiplies other logits of tokens in prompt or output.
        seed: any integer (taken modulo 2^64); None: derived from the engine seed and the request's number.
        max_tokens: new tokens at most, 0 to 2^31-1; 0 scores only; None: until max_model_len.
        min_tokens: 0 to max_tokens; new tokens before any stop id may come or any stop string may end the request.
        stop: non-empty strings that end the request; the one completed first wins.
        stop_token_ids: ids that end the request, beside EOS.
        ignore_eos: EOS may be produced and does not end the request.
        include_stop_str_in_output: keep the matched stop string in the text.
        skip_special_tokens: leave special tokens out of the text.
        logprobs: >= 0, -1 or None (none): best alternatives reported per generated token beside the token itself; -1 is
            the whole vocabulary.
        prompt_logprobs: the same for prompt tokens, whose first has none; always raw.
        logprobs_mode: "raw" (log-softmax of the model's logits) or "processed" (of the distribution drawn from).
        logit_bias: {token id: bias in [-100, 100]}, each id once ("5" is 5).
        allowed_token_ids: only these ids may be produced; at least one, or None for all.
        bad_words: non-empty texts that must not appear in the output, however they are spelt, nor inside longer words.
        first_n_token_no_eos: >= 0; EOS is banned for this many first tokens.
        golden_token_ids: forced output by position; -1 samples freely.
        structured_outputs: grammar of the output: a mapping (or an object with such attributes) with one of ``json``,
            ``json_object``, ``regex``, ``choice``, ``grammar``, or the original's ``schema_type`` and ``schema``. A
            wrong one is the request's own error.
        logits_processors: callables ``(generated_ids, row) -> row`` or ``(prompt_ids, generated_ids, row) -> row`` over
            the float32 logits of the tokenizer's ids; called after the penalties. They cannot lift a ban.

    Raises:
        RequestError (a ValueError): a value out of range, naming field, value and range.
        TypeError: an unknown name, with the nearest known one.
    """

    __slots__ = tuple(CHECKS)

    n: int
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    presence_penalty: float
    frequency_penalty: float
    repetition_penalty: float
    seed: int | None
    max_tokens: int | None
    min_tokens: int
    stop: tuple[str, ...]
    stop_token_ids: tuple[int, ...]
    ignore_eos: bool
    include_stop_str_in_output: bool
    skip_special_tokens: bool
    logprobs: int | None
    prompt_logprobs: int | None
    logprobs_mode: Literal["raw", "processed"]
    logit_bias: Mapping[int, float] | None
    allowed_token_ids: tuple[int, ...] | None
    bad_words: tuple[str, ...]
    first_n_token_no_eos: int
    golden_token_ids: tuple[int, ...] | None
    structured_outputs: Any
    logits_processors: tuple[Callable[..., Any], ...] | None

    def __init__(
        self,
        *,
        n: int = 1,
        temperature: float = 1.0,
        top_p: float = 1.0,
        top_k: int = -1,
        min_p: float = 0.0,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        repetition_penalty: float = 1.0,
        seed: int | None = None,
        max_tokens: int | None = 16,
        min_tokens: int = 0,
        stop: str | Iterable[str] | None = None,
        stop_token_ids: Iterable[int] | None = None,
        ignore_eos: bool = False,
        include_stop_str_in_output: bool = False,
        skip_special_tokens: bool = True,
        logprobs: int | None = None,
        prompt_logprobs: int | None = None,
        logprobs_mode: Literal["raw", "processed"] = "raw",
        logit_bias: Mapping[int, float] | None = None,
        allowed_token_ids: Iterable[int] | None = None,
        bad_words: str | Iterable[str] | None = None,
        first_n_token_no_eos: int = 0,
        golden_token_ids: Iterable[int] | None = None,
        structured_outputs: Any = None,
        logits_processors: Iterable[Callable[..., Any]] | None = None,
        **others: Any,
    ) -> None:
        arguments = locals()
        values = _canonical({name: arguments[name] for name in CHECKS}, others, self._defaults())
        for name, check in CHECKS.items():
            object.__setattr__(self, name, check(name, values[name]))
        self._check_together()

    def _check_together(self) -> None:
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise bad_value("min_tokens", self.min_tokens, f"<= max_tokens={self.max_tokens}")

    @classmethod
    def _defaults(cls) -> Mapping[str, Any]:
        return cls.__init__.__kwdefaults__ or {}

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"SamplingParams is immutable; use params.replace({name}=...) for a changed copy")

    __delattr__ = __setattr__  # type: ignore[assignment]

    @property
    def greedy(self) -> bool:
        """Whether the temperature means argmax (lowest id on ties)."""
        return self.temperature < _GREEDY_BELOW

    def replace(self, **changes: Any) -> SamplingParams:
        """A validated copy with some fields changed (aliases are accepted)."""
        changes = {_ALIASES.get(name, name): value for name, value in changes.items()}
        return SamplingParams(**{**self.to_dict(), **changes})

    def check_token_ids(self, num_ids: int) -> None:
        """Raise RequestError when a field names a token id that the tokenizer (`num_ids` ids) does not have."""
        named: dict[str, Iterable[int]] = {
            "logit_bias": self.logit_bias or (),
            "allowed_token_ids": self.allowed_token_ids or (),
            "golden_token_ids": self.golden_token_ids or (),
            "stop_token_ids": self.stop_token_ids,
        }
        for name, ids in named.items():
            for token_id in ids:
                if token_id >= num_ids:
                    message = f"{name} has the token id {token_id}, but ids go from 0 to {num_ids - 1} only"
                    raise RequestError(message, code="token_id_out_of_range")

    def to_dict(self) -> dict[str, Any]:
        """Every field as plain Python values; ``SamplingParams(**params.to_dict())`` gives an equal object."""
        return {name: _plain(getattr(self, name)) for name in CHECKS}

    def __repr__(self) -> str:
        plain = SamplingParams().to_dict()
        changed = [f"{name}={value!r}" for name, value in self.to_dict().items() if value != plain[name]]
        return f"SamplingParams({', '.join(changed)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SamplingParams):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __copy__(self) -> SamplingParams:
        return self.replace()

    def __deepcopy__(self, memo: object) -> SamplingParams:
        return self.replace()

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.to_dict(),)


def _plain(value: Any) -> Any:
    try:
        return thaw(value)
    except RecursionError:  # a grammar that contains itself; its request says so
        return value


def _restore(values: dict[str, Any]) -> SamplingParams:
    return SamplingParams(**values)
