"""The public class LLM: load a model once, then generate, score, stream and look inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from deepinfer.config.engine_config import EngineConfig
from deepinfer.config.numerics import Numerics
from deepinfer.engine.attached_hooks import captured, replaced
from deepinfer.engine.build_runtime import build_runtime
from deepinfer.engine.call_params import params_per_prompt
from deepinfer.engine.engine_options import engine_config
from deepinfer.engine.mailbox import Mailbox
from deepinfer.engine.parallel_runtime import ParallelRuntime
from deepinfer.engine.prefix_handle import PrefixHandle
from deepinfer.engine.prompt_encoder import split_prompts
from deepinfer.engine.request_batch import RequestBatch
from deepinfer.engine.request_ids import RequestIds
from deepinfer.engine.request_queue import RequestQueue
from deepinfer.engine.stats import EngineStats
from deepinfer.engine.tap import Tap
from deepinfer.engine.traced_ranks import traced_ranks
from deepinfer.engine.traced_steps import traced_steps
from deepinfer.envs import read_environment
from deepinfer.errors import EngineClosedError, RequestError, UnsupportedFeatureError
from deepinfer.logging import get_logger
from deepinfer.outputs import RequestDelta, RequestOutput
from deepinfer.profile.step_trace import StepTrace
from deepinfer.sampling_params import SamplingParams
from deepinfer.text.chat_keywords import ChatKeywords
from deepinfer.text.chat_messages import split_conversations
from deepinfer.text.chat_options import ChatOptions
from deepinfer.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from deepinfer.engine.chat_call import ChatCall
    from deepinfer.engine.runtime import EngineRuntime
    from deepinfer.text.chat_format import ChatFormat

Params = SamplingParams | Mapping[str, Any] | Sequence[SamplingParams | Mapping[str, Any]] | None
UseTqdm = bool | Callable[..., Any]

logger = get_logger(__name__)


class LLM:
    """A loaded model with its engine. Use it as a context manager, or call `close`.

    Args:
        model: checkpoint directory or hub id; None loads the bundled mini checkpoint.
        tokenizer: directory of another tokenizer; None: the model's.
        revision: hub revision of the model.
        device: "auto", "cpu", "cuda" or "cuda:<index>".
        backend: "auto" (the fastest; with numerics "fp32-quant" the reference), "reference", "cpu" or "cuda".
        max_model_len: prompt and output tokens of a sequence; None: the model's own limit.
        max_num_seqs: sequences that run at once.
        max_num_batched_tokens: tokens computed in a step; None: chosen by backend.
        max_prefill_chunk: prompt tokens of one sequence in a step; None: the token budget.
        gpu_memory_utilization: share of a GPU's memory used in all.
        kv_cache_bytes: bytes of the paged caches; None: sized from the memory.
        kv_cache_dtype: "auto", "fp4", "fp8" or "float32".
        block_size: tokens per cache block.
        seed: engine seed; unseeded requests derive theirs from it and their running number.
        generation_config: "auto": the checkpoint's file gives default sampling parameters; "none": it does not.
        load_format, engram_storage: "dummy" for random weights; "host" (pinned) or "disk" for a GPU's Engram tables.
        numerics: "official", "fp32-quant" or "fp32".
        enforce_eager: no CUDA graphs; None: the environment's default, else False.
        batch_invariant: a result does not depend on its neighbours; None: the backend's default.
        num_threads: CPU threads of a forward pass; None: one for a small model, else the usable cores, at most 4 and at
            most torch's own number. Results do not depend on it; torch's number is back after every step.
        overlap: whether the host keeps the books of a step while the device computes the next; None: by backend.
        cpu_isa: instruction set of native kernels: "auto", "scalar", "avx2", "avx512" or "avx512_bf16". Results do not
            depend on it.
        speculative: None: drafts when the checkpoint has them, on backend "cpu" if they pay; "off"; a mapping of
            SpeculativeConfig's fields; or the path of a calibration file. Tokens are the same with drafts and without.
        yoco: "off": exact; "compact" or {"mode": "compact", "keep_tokens": n}: only a prompt's last n tokens go through
            the upper half of the model, a faster prefill that changes results a little; "mask": to check it.
        *_parallel_size: worker processes, and what they share (doc/wide_ep.md).
        enable_chunked_prefill: whether long prompts are computed in pieces.
        grammar_timeout, grammar_cache_bytes, grammar_disable_cache, grammar_threads, grammar_debug: how grammars of
            structured requests are compiled (`config.grammar_config.GrammarConfig`).

    Raises:
        TypeError: an unknown option, with the nearest known one.
        ConfigError, CheckpointError, UnsupportedFeatureError: what is wrong and how to mend it.
    """

    _closed = False
    _build_runtime: Callable[..., EngineRuntime | ParallelRuntime] = staticmethod(build_runtime)

    def __init__(
        self,
        model: str | PathLike[str] | None = None,
        *,
        tokenizer: str | PathLike[str] | None = None,
        revision: str | None = None,
        device: str = "auto",
        backend: str = "auto",
        max_model_len: int | None = None,
        max_num_seqs: int = 256,
        max_num_batched_tokens: int | None = None,
        max_prefill_chunk: int | None = None,
        gpu_memory_utilization: float = 0.9,
        kv_cache_bytes: int | None = None,
        kv_cache_dtype: str = "auto",
        block_size: int = 128,
        seed: int = 0,
        generation_config: str = "auto",
        load_format: str = "auto",
        engram_storage: str = "auto",
        numerics: str | Numerics = "official",
        enforce_eager: bool | None = None,
        batch_invariant: bool | None = None,
        num_threads: int | None = None,
        overlap: bool | None = None,
        cpu_isa: str = "auto",
        speculative: str | Mapping[str, Any] | None = None,
        yoco: str | Mapping[str, Any] | None = None,
        enable_chunked_prefill: bool = True,
        data_parallel_size: int = 1,
        context_parallel_size: int = 1,
        expert_parallel_size: int = 1,
        **others: Any,
    ) -> None:
        options = {name: value for name, value in locals().items() if name not in ("self", "others")}
        environment = read_environment()
        config = engine_config(options, others, environment)
        self._runtime = self._build_runtime(config, environment)
        self._request_ids = RequestIds(self._runtime.loop.is_unfinished)
        self._chat_format: ChatFormat | None = None

    def generate(
        self,
        prompts: Any = None,
        sampling_params: Params = None,
        *,
        prompt_token_ids: Any = None,
        request_ids: Sequence[str] | None = None,
        use_tqdm: UseTqdm = True,
        strict: bool = False,
    ) -> list[RequestOutput]:
        """Complete prompts.

        Args:
            prompts: a prompt or a list of prompts; a prompt is a text, a list of ids, {"prompt": text} or
                {"prompt_token_ids": ids}, also with a "prefix" from `save_prefix`. Texts get BOS unless they have it;
                ids are taken as they are. A flat integer array of numpy or torch is a list of ids, one with two
                dimensions a list of prompts.
            sampling_params: one for all, or one per prompt; None: the checkpoint's defaults. A wrong entry of a list
                is its own request's error.
            prompt_token_ids: ids per prompt, as older scripts pass them.
            request_ids: own ids, unique among unfinished requests; None: running numbers.
            use_tqdm: progress bar on standard error, or a callable that makes one.
            strict: raise the first wrong request's error before any work, instead of answering with it.

        Returns:
            One output per prompt, in prompt order. A wrong request has `error` set and harms no other.
        """
        batch, num_prompts = self._batch(split_prompts(prompts, prompt_token_ids), sampling_params, request_ids)
        if strict:
            batch.raise_first_error()
        return batch.in_order(num_prompts, use_tqdm)

    def generate_iter(
        self, prompts: Any, sampling_params: Params = None, *, request_ids: Sequence[str] | None = None
    ) -> Iterator[RequestOutput]:
        """Like `generate`, but yields each output when it is finished. Leaving the iterator aborts the rest."""
        batch, _ = self._batch(split_prompts(prompts), sampling_params, request_ids)
        return (output for _, output in batch.finished())

    def stream(
        self, prompts: Any, sampling_params: Params = None, *, request_ids: Sequence[str] | None = None
    ) -> Iterator[RequestDelta]:
        """Yields what each step adds to each completion; the last delta of one has a finish_reason.

        Leaving the iterator aborts the rest.
        """
        batch, _ = self._batch(split_prompts(prompts), sampling_params, request_ids, streaming=True)
        return batch.deltas()

    def queue(self) -> RequestQueue:
        """Requests handed in one by one while others run, outputs taken as they end."""
        self._require_open()
        runtime, ids = self._runtime, self._request_ids
        return RequestQueue(runtime.loop, runtime.inputs, runtime.encoder, ids, runtime.default_params)

    def score(
        self, prompts: Any, continuations: Any, *, use_tqdm: UseTqdm = False
    ) -> list[tuple[float, bool, list[float]]]:
        """Judge given continuations without generating.

        Args:
            prompts, continuations: lists of equal length, texts or ids. Two texts are split into ids as
                lm-evaluation-harness does.

        Returns:
            Per pair: the sum of the continuation's log-probabilities (natural, raw), whether greedy decoding would
            have chosen each of its tokens, and the log-probability of each. Raises RequestError for a wrong pair.
        """
        self._require_open()
        contexts, targets = split_prompts(prompts), split_prompts(continuations)
        if len(contexts) != len(targets):
            raise RequestError(f"{len(contexts)} prompts but {len(targets)} continuations", code="length_mismatch")
        ids = self._request_ids.take(len(contexts), None)
        batch = self._new_batch()
        for request_id, context, target in zip(ids, contexts, targets, strict=True):
            batch.add_scoring(request_id, context, target)
        outputs = batch.in_order(len(ids), use_tqdm)
        return [batch.judged(output) for output in outputs]

    def chat(
        self,
        messages: Any,
        sampling_params: Params = None,
        *,
        request_ids: Sequence[str] | None = None,
        use_tqdm: UseTqdm = True,
        strict: bool = False,
        **options: Unpack[ChatKeywords],
    ) -> list[RequestOutput]:
        """Answer conversations in the model's prompt format. Markers inside contents are never recognised.

        Args:
            messages: a conversation (list of OpenAI-style message dicts), or a list of conversations.
            sampling_params: one for all, or one per conversation; None: the checkpoint's defaults.
            request_ids, use_tqdm, strict: as in `generate`.
            options: tools, thinking, effort, response_format and more, see `text.chat_keywords.ChatKeywords`.

        Returns:
            One output per conversation, in order; its completions have reasoning, content and tool_calls beside the
            untouched text. A refused conversation has `error` set and harms no other.
        """
        call = self._chat_call(messages, sampling_params, ChatOptions.of(options))
        batch, num_prompts = self._batch(call.prompts, call.params, request_ids)
        if strict:
            batch.raise_first_error()
        outputs = batch.in_order(num_prompts, use_tqdm)
        return [call.answers.output(place, output) for place, output in enumerate(outputs)]

    def stream_chat(
        self,
        messages: Any,
        sampling_params: Params = None,
        *,
        request_ids: Sequence[str] | None = None,
        **options: Unpack[ChatKeywords],
    ) -> Iterator[RequestDelta]:
        """Like `chat`, but yields what each step adds: text and ids as `stream` does, and the parsed pieces.

        Leaving the iterator aborts the rest.
        """
        call = self._chat_call(messages, sampling_params, ChatOptions.of(options))
        batch, _ = self._batch(call.prompts, call.params, request_ids, streaming=True)
        return (call.answers.delta(delta) for delta in batch.deltas())

    def abort(self, request_id: str) -> None:
        """End a request early, from any thread; its output says finish_reason "abort".

        Unknown ids are ignored, also if a later request gets the id. TypeError for anything but a text.
        """
        self._require_open()
        if not isinstance(request_id, str):
            raise TypeError(f"abort() takes the id of a request, a text, not a {type(request_id).__name__}")
        self._runtime.loop.abort([request_id])

    def save_prefix(self, request_id: str, *, allow_replay: bool = False) -> PrefixHandle:
        """Keep what a request has in the caches, prompt and generated tokens, for later prompts to begin on.

        Pass the handle as ``{"prefix": handle, "prompt_token_ids": ids}`` (or with "prompt") and the whole prompt as
        always: as far as it agrees with the saved text, compressed entries are taken from there. Sliding windows are
        not saved; they are rebuilt from the last window of common tokens. Results then differ a little from those
        without a prefix (doc/yoco.md), which `allow_replay` accepts.

        Args:
            request_id: an unfinished request, or one of the latest that ended and whose blocks are not used again yet.
            allow_replay: has to be True: there is no exact way yet.

        Returns:
            A handle; close it to give the blocks back. Raises RequestError (codes prefix_not_found, prefix_not_saved)
            when the text is not in the caches, which that of an aborted or failed request never is, or when too little
            would be left for the requests that are unfinished.
        """
        self._require_open()
        if not isinstance(request_id, str):
            raise TypeError(f"save_prefix() takes the id of a request, a text, not a {type(request_id).__name__}")
        if allow_replay is not True:
            raise UnsupportedFeatureError(
                "save_prefix: windows are rebuilt from a few tokens, which changes results a little; pass "
                "allow_replay=True to accept that (an exact prefix cache is not built yet)"
            )
        return self._runtime.loop.save_prefix(request_id)

    def get_tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        return self._runtime.tokenizer

    @property
    def config(self) -> EngineConfig:
        """The options in force, every "auto" resolved."""
        return self._runtime.config

    @property
    def default_params(self) -> SamplingParams:
        """What `sampling_params=None` means for this model."""
        return self._runtime.default_params

    def stats(self) -> EngineStats:
        """Totals since the engine was built, and its present load."""
        self._require_open()
        return self._runtime.stats()

    def capture(self, *patterns: str) -> AbstractContextManager[Tap]:
        """Record named tensors of the requests that run inside, e.g. ``capture("layers.*.ffn.experts")``.

        Costs nothing when unused. Yields a `Tap`, readable afterwards too. A pattern without a match gets a warning.
        """
        self._require_open()
        return captured(self._runtime.local, patterns)

    def replace(self, point: str, function: Callable[..., Any]) -> AbstractContextManager[None]:
        """Inside, call ``function(original, *args)`` wherever the component `point` would be called.

        Inside another replacement of the same point the inner one counts. RequestError for a point the model lacks.
        """
        self._require_open()
        return replaced(self._runtime.local, point, function)

    def trace(self) -> AbstractContextManager[StepTrace]:
        """Inside, note when phases of steps, native calls and ops begin and end; the trace is filled at the end, and
        `StepTrace.write` makes a chrome-trace file of it. One at a time. With several ranks every one is traced.
        """
        self._require_open()
        runtime = self._runtime
        return traced_ranks(runtime) if isinstance(runtime, ParallelRuntime) else traced_steps(runtime)

    def close(self) -> None:
        """Give model and caches back; idempotent. Later use raises EngineClosedError."""
        if not self._closed:
            self._closed = True
            self._runtime.loop.close()

    def __enter__(self) -> Self:
        self._require_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _require_open(self) -> None:
        if self._closed:
            raise EngineClosedError("this LLM is closed; build a new one")

    def _new_batch(self, *, streaming: bool = False) -> RequestBatch:
        runtime = self._runtime
        return RequestBatch(runtime.loop, runtime.inputs, runtime.encoder, Mailbox(streaming))

    def _batch(
        self, prompts: list[Any], params: Any, request_ids: Sequence[str] | None, *, streaming: bool = False
    ) -> tuple[RequestBatch, int]:
        """The prepared requests of a call, and their number."""
        self._require_open()
        per_prompt = params_per_prompt(params, len(prompts), self.default_params)
        ids = self._request_ids.take(len(prompts), request_ids)
        batch = self._new_batch(streaming=streaming)
        for request_id, prompt, item in zip(ids, prompts, per_prompt, strict=True):
            batch.add_generation(request_id, prompt, item)
        return batch, len(prompts)

    def _chat_call(self, messages: Any, params: Params, options: ChatOptions) -> ChatCall:
        """The rendered conversations of a call. The prompt format's library loads on first use."""
        self._require_open()
        from deepinfer.engine.chat_call import ChatCall
        from deepinfer.text.chat_format import ChatFormat

        runtime = self._runtime
        if self._chat_format is None:
            self._chat_format = ChatFormat(runtime.tokenizer, runtime.chat_defaults)
        conversations = split_conversations(messages)
        per_conversation = params_per_prompt(params, len(conversations), self.default_params)
        return ChatCall(self._chat_format, runtime.tokenizer, conversations, per_conversation, options)
