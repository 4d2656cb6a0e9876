"""From a prompt and its sampling parameters to the request that the engine core works on."""

from __future__ import annotations

import itertools
from dataclasses import replace

from deepinfer.core.constraint import Constraint
from deepinfer.core.engine_request import EngineRequest
from deepinfer.engine.encoded_prompt import EncodedPrompt
from deepinfer.engine.request_limits import RequestLimits
from deepinfer.errors import RequestError
from deepinfer.grammar.constraint import parse_constraint
from deepinfer.sampling.seeds import derive_choice_seed, derive_request_seed
from deepinfer.sampling_params import SamplingParams
from deepinfer.text.banned_words import TextBan
from deepinfer.text.token_texts import TokenTexts
from deepinfer.text.tokenizer import Tokenizer


class InputProcessor:
    """Validates requests one by one; a wrong one raises and harms no other."""

    def __init__(
        self, tokenizer: Tokenizer, eos_token_ids: tuple[int, ...], vocab_size: int, limits: RequestLimits, seed: int
    ) -> None:
        """Args:
        tokenizer: of the checkpoint.
        eos_token_ids: ids that end a sequence unless ignored (config and generation_config).
        vocab_size: rows of the head.
        limits: what a request must fit into.
        seed: engine seed; requests without their own seed derive one from it and their running number.
        """
        self._tokenizer = tokenizer
        self._eos_token_ids = eos_token_ids
        self._num_ids = min(vocab_size, tokenizer.size)
        self._limits = limits
        self._seed = seed
        self._numbers = itertools.count()
        self._seq_ids = itertools.count()
        self._texts: TokenTexts | None = None

    def next_number(self) -> int:
        """The running number of the next request: every request takes one, also a failing one."""
        return next(self._numbers)

    def generation(self, request_id: str, number: int, prompt: EncodedPrompt, params: SamplingParams) -> EngineRequest:
        """A request that generates, with its further choices as forks.

        Raises RequestError (too long, beyond capacity, ids out of range, words that cannot be banned, scores of a
        prompt that YOCO cuts).
        """
        self._check_length(len(prompt.token_ids))
        params.check_token_ids(self._num_ids)
        wants_scores = params.prompt_logprobs is not None
        if wants_scores:
            self._check_scores("prompt_logprobs")
        if wants_scores and prompt.prefix is not None:
            raise RequestError(
                "prompt_logprobs: the tokens of a saved prefix are not computed again, so they cannot be judged; leave "
                "out one of the two",
                code="prefix_without_scores",
            )
        first = EngineRequest(
            seq_id=next(self._seq_ids),
            request_id=request_id,
            choice=0,
            prompt_token_ids=prompt.token_ids,
            params=params,
            seed=derive_request_seed(self._seed, number) if params.seed is None else params.seed % 2**64,
            max_tokens=self._max_tokens(params, len(prompt.token_ids)),
            stop_token_ids=self._stop_token_ids(params),
            score_start=1 if wants_scores else None,
            score_top_k=(params.prompt_logprobs or 0) if wants_scores else 0,
            constraint=self._constraint(params),
            banned_words=self._banned_words(params),
        )
        return replace(first, forks=tuple(self._fork(first, choice) for choice in range(1, params.n)))

    def _fork(self, first: EngineRequest, choice: int) -> EngineRequest:
        """A further choice of a request: its own sequence and seed; the prompt is scored once only."""
        seed = derive_choice_seed(first.seed, choice)
        return replace(first, seq_id=next(self._seq_ids), choice=choice, seed=seed, score_start=None, score_top_k=0)

    def scoring(self, request_id: str, prompt: EncodedPrompt, score_start: int) -> EngineRequest:
        """A request that only judges the prompt's tokens from `score_start` on."""
        self._check_length(len(prompt.token_ids))
        self._check_scores("score")
        return EngineRequest(
            seq_id=next(self._seq_ids),
            request_id=request_id,
            choice=0,
            prompt_token_ids=prompt.token_ids,
            params=SamplingParams(max_tokens=0, temperature=0.0),
            seed=0,
            max_tokens=0,
            stop_token_ids=(),
            score_start=score_start,
            score_top_k=0,
        )

    def _banned_words(self, params: SamplingParams) -> TextBan | None:
        if not params.bad_words:
            return None
        if self._texts is None:
            self._texts = TokenTexts(self._tokenizer.text_pieces(self._num_ids))
        return TextBan(params.bad_words, self._texts)

    def _constraint(self, params: SamplingParams) -> Constraint | None:
        given = params.structured_outputs
        return None if given is None else parse_constraint(given, self._num_ids)

    def _check_scores(self, name: str) -> None:
        mode = self._limits.yoco_mode
        if mode != "off":
            raise RequestError(
                f"{name}: with yoco={mode!r} only the last tokens of a prompt go through all layers, so its tokens "
                'cannot be judged; build the LLM with yoco="off"',
                code="yoco_without_scores",
            )

    def _check_length(self, length: int) -> None:
        limits = self._limits
        if length > limits.max_model_len:
            raise RequestError(
                f"the prompt has {length} tokens, but max_model_len is {limits.max_model_len}: "
                "shorten it or raise max_model_len (nothing is cut off silently)",
                code="prompt_too_long",
            )
        if length > limits.capacity_tokens:
            raise RequestError(
                f"the prompt has {length} tokens, but the whole cache has a capacity of {limits.capacity_tokens} "
                "tokens: shorten it or raise kv_cache_bytes",
                code="capacity_exceeded",
            )
        if limits.max_prompt_len is not None and length > limits.max_prompt_len:
            raise RequestError(
                f"the prompt has {length} tokens, but a step takes {limits.max_prompt_len} and chunked prefill is off: "
                "raise max_num_batched_tokens or set enable_chunked_prefill=True",
                code="prompt_too_long",
            )

    def _max_tokens(self, params: SamplingParams, prompt_len: int) -> int:
        room = self._limits.max_model_len - prompt_len
        return room if params.max_tokens is None else min(params.max_tokens, room)

    def _stop_token_ids(self, params: SamplingParams) -> tuple[int, ...]:
        eos = () if params.ignore_eos else self._eos_token_ids
        if params.structured_outputs is not None:  # its own stop ids may be text of the value: the sampler judges them
            return tuple(dict.fromkeys(eos))
        return tuple(dict.fromkeys((*eos, *params.stop_token_ids)))
