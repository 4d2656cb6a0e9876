"""An lm-evaluation-harness model over `LLM.score` and `LLM.generate`. Importing it registers the name "deepinfer"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model
from lm_eval.utils import get_rolling_token_windows

from deepinfer.errors import CheckpointError, RequestError
from deepinfer.llm import LLM
from deepinfer.logging import get_logger
from deepinfer.sampling_params import SamplingParams
from deepinfer.text.chat_format import ChatFormat
from deepinfer.text.chat_options import ChatOptions

logger = get_logger(__name__)

_DEFAULT_NEW_TOKENS: Final = 256
_EMPTY: Final = (0.0, True)  # a continuation without a token of its own is certain, as in the harness's own models


@register_model("deepinfer")
class DeepInferLM(LM):
    """A model for ``lm_eval.simple_evaluate(model=DeepInferLM(llm), ...)``.

    The engine packs batches by itself, so ``batch_size`` says nothing. A context too long for the model loses tokens at
    its beginning, with a warning; a continuation never does.
    """

    def __init__(
        self,
        llm: LLM | None = None,
        *,
        batch_size: Any = None,
        max_batch_size: Any = None,
        use_tqdm: bool = False,
        **options: Any,
    ) -> None:
        """Args:
        llm: a loaded model, which the caller closes; None: one is loaded with `options`.
        batch_size, max_batch_size: what the harness passes to every model; not used.
        use_tqdm: progress bars of the engine.
        options: of `LLM`, for ``model_args``.
        """
        super().__init__()
        if llm is not None and options:
            raise TypeError(f"give a loaded model or options of one, not both: {', '.join(options)}")
        self.llm = LLM(**options) if llm is None else llm
        self._use_tqdm = use_tqdm
        self._tokenizer = self.llm.get_tokenizer()
        limit = self.llm.config.scheduler.max_model_len
        assert limit is not None, "resolved when the model was loaded"
        self._max_len = limit

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        """Per (context, continuation): the continuation's log-probability in nats; whether greedy decoding writes it.

        These are `LLM.score`'s numbers for the two texts.
        """
        pairs = [self._tokenizer.encode_pair(*request.args) for request in requests]
        results = self._scores(pairs)
        for request, result in zip(requests, results, strict=True):
            self.cache_hook.add_partial("loglikelihood", request.args, result)
        return results

    def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
        """Per (text,): its log-probability in nats behind BOS, cut into windows where it is too long for the model."""
        windows, owners = [], []
        for place, request in enumerate(requests):
            ids = self._tokenizer.encode(request.args[0])
            first = self._prefix_token()
            ids = ids[1:] if ids[:1] == [first] else ids
            for context, judged in get_rolling_token_windows(ids, first, self._max_len - 1, 1):
                kept = len(context) - (len(judged) - 1)
                windows.append((context[:kept], judged))
                owners.append(place)
        sums = [0.0] * len(requests)
        for place, (logprob, _) in zip(owners, self._scores(windows), strict=True):
            sums[place] += logprob
        for request, total in zip(requests, sums, strict=True):
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, total)
        return sums

    def generate_until(self, requests: list[Instance]) -> list[str]:
        """Per (context, options): the text up to, and without, the first stop string.

        Options: ``until``, ``max_gen_toks`` (256), ``do_sample``, and any field of `SamplingParams`. Greedy unless a
        temperature is given and ``do_sample`` is not False.
        """
        if not requests:
            return []
        prompts, params = zip(*(self._generation(*request.args) for request in requests), strict=True)
        outputs = self.llm.generate(list(prompts), list(params), use_tqdm=self._use_tqdm)
        texts = []
        for request, output in zip(requests, outputs, strict=True):
            if output.error is not None:
                raise RequestError(f"{request.args[0][-80:]!r}: {output.error.message}", code=output.error.code)
            texts.append(output.outputs[0].text)
            self.cache_hook.add_partial("generate_until", request.args, texts[-1])
        return texts

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """The conversation in the V4.1 prompt format, thinking off.

        Without `add_generation_prompt` the last message, an assistant's, is continued.
        """
        options = ChatOptions(thinking=False, continue_final_message=not add_generation_prompt)
        return ChatFormat(self._tokenizer).render(chat_history, options).text

    def chat_template(self, chat_template: bool | str = False) -> str:
        """Empty: the format is the model maker's library, not a template."""
        return ""

    @property
    def tokenizer_name(self) -> str:
        """What tells this model's tokenizer and prompt format from others, in the harness's caches."""
        source = self.llm.config.tokenizer or self.llm.config.model or "bundled"
        return f"deepinfer__{str(source).replace('/', '__')}"

    def _scores(self, pairs: list[tuple[list[int], list[int]]]) -> list[tuple[float, bool]]:
        """`LLM.score` of (context ids, continuation ids)."""
        judged = [place for place, (_, continuation) in enumerate(pairs) if continuation]
        contexts, continuations = [], []
        for place in judged:
            context, continuation = pairs[place]
            contexts.append(self._tail(context, len(continuation)))
            continuations.append(continuation)
        results = [_EMPTY] * len(pairs)
        if judged:
            scores = self.llm.score(contexts, continuations, use_tqdm=self._use_tqdm)
            for place, (logprob, is_greedy, _) in zip(judged, scores, strict=True):
                results[place] = (logprob, is_greedy)
        return results

    def _generation(self, context: str, options: Mapping[str, Any]) -> tuple[list[int], SamplingParams]:
        given = dict(options)
        until = given.pop("until", None) or []
        num_new = min(int(given.pop("max_gen_toks", _DEFAULT_NEW_TOKENS)), self._max_len - 1)
        if given.pop("do_sample", None) is False or "temperature" not in given:
            given["temperature"] = 0.0
        stop = [until] if isinstance(until, str) else list(until)
        params = SamplingParams(max_tokens=num_new, stop=[text for text in stop if text] or None, **given)
        return self._tail(self._tokenizer.encode_prompt(context), num_new), params

    def _tail(self, context: list[int], num_more: int) -> list[int]:
        """The end of a context that leaves room for so many tokens, one token at least."""
        room = max(self._max_len - num_more, 1)
        if len(context) > room:
            logger.warning("a context of %d tokens loses all but its last %d: max_model_len", len(context), room)
        return context[-room:]

    def _prefix_token(self) -> int:
        if self._tokenizer.bos_token_id is None:
            raise CheckpointError("the tokenizer has no BOS token, which stands in front of the first judged token")
        return self._tokenizer.bos_token_id
