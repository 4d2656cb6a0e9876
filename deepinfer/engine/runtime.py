"""Puts an engine together: files, tokenizer, worker, scheduler and the processors around them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from deepinfer._C import Scheduler, SchedulerConfig, StepEstimator
from deepinfer.config.cost_curves import CostCurves
from deepinfer.config.engine_config import EngineConfig
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.core.sync_guard import SYNC_GUARD
from deepinfer.distributed.rank_groups import RankGroups
from deepinfer.engine.grammar_queue import GrammarQueue
from deepinfer.engine.input_processor import InputProcessor
from deepinfer.engine.llm_engine import LLMEngine
from deepinfer.engine.lockstep_engine import LockstepEngine
from deepinfer.engine.lockstep_options import lockstep_options
from deepinfer.engine.model_files import ModelFiles
from deepinfer.engine.output_processor import OutputProcessor
from deepinfer.engine.overlapped_engine import OverlappedEngine
from deepinfer.engine.overlapped_lockstep_engine import OverlappedLockstepEngine
from deepinfer.engine.prompt_encoder import PromptEncoder
from deepinfer.engine.request_limits import RequestLimits
from deepinfer.engine.run_modes import RunModes
from deepinfer.engine.stats import EngineStats
from deepinfer.engine.sync_loop import SyncLoop
from deepinfer.envs import EnvReport
from deepinfer.grammar.compiler import GrammarCompiler
from deepinfer.ops.cuda.availability import cuda_unavailable
from deepinfer.ops.cuda.kernel_cache import use_kernel_cache
from deepinfer.ops.select import SelectedBackend, select_backend
from deepinfer.profile.decode_costs import decode_costs
from deepinfer.sampling_params import SamplingParams
from deepinfer.text.chat_defaults import ChatDefaults
from deepinfer.text.tokenizer import Tokenizer
from deepinfer.worker.cpu_threads import choose_num_threads
from deepinfer.worker.worker import Worker


@dataclass(frozen=True, slots=True)
class EngineRuntime:
    """The parts that `LLM` works with. Made by `build`.

    Attributes:
        config: resolved options.
        tokenizer: of the checkpoint.
        default_params: used where a call gives no sampling parameters.
        chat_defaults: used where a chat call leaves thinking and effort open.
        engine: the core.
        loop: drives it.
        encoder, inputs: prompt forms and request validation.
        limits: what a request must fit into.
        modes: the modes in force.
        worker: owner of the model; here for the research hooks.
    """

    config: EngineConfig
    tokenizer: Tokenizer
    default_params: SamplingParams
    chat_defaults: ChatDefaults
    engine: LLMEngine
    loop: SyncLoop
    encoder: PromptEncoder
    inputs: InputProcessor
    limits: RequestLimits
    modes: RunModes
    worker: Worker

    @classmethod
    def build(
        cls,
        config: EngineConfig,
        environment: EnvReport,
        choose_backend: Callable[..., SelectedBackend] | None = None,
        groups: RankGroups | None = None,
    ) -> EngineRuntime:
        """Load a model and build the engine around it.

        Args:
            config: options as given.
            environment: settings that change no result, and variables that the model must agree with.
            choose_backend: called in place of `select_backend`, with its arguments; may give ops of its own.
            groups: the ranks whose steps this engine's meet; None for an engine by itself.

        Raises ConfigError, CheckpointError or UnsupportedFeatureError before any request is taken.
        """
        files = ModelFiles.read(config, environment)
        model_config, tokenizer, eos_token_ids = files.model_config, files.tokenizer, files.eos_token_ids
        config = config if groups is None else lockstep_options(config)
        num_threads = choose_num_threads(config.num_threads, model_config.hidden_size)
        backend = (choose_backend or select_backend)(*_selection(config, num_threads, environment))
        config = replace(config.resolve(model_config, backend.name), num_threads=num_threads)
        num_valid_ids = files.num_valid_ids
        if groups is not None:
            backend = replace(backend, context=None)  # of native calls and components, these can talk to other ranks
        worker = Worker(config, model_config, files.directory, backend, num_valid_ids, eos_token_ids, groups)
        costs = decode_costs(config, files.directory / "config.json", worker, environment.settings)
        scheduler = _scheduler(config, model_config, worker, costs)
        modes = _modes(config, backend.name)
        outputs = OutputProcessor(tokenizer, eos_token_ids, modes, scheduler)
        pieces = tokenizer.text_pieces(num_valid_ids)
        grammars = GrammarQueue(GrammarCompiler(config.grammar, pieces, eos_token_ids))
        log_interval = environment.settings.get("logging_interval_step", 0)
        engine = _engine(config, groups, (worker, scheduler, outputs, log_interval, grammars))
        limits = _limits(config, scheduler)
        return cls(
            config=config,
            tokenizer=tokenizer,
            default_params=files.defaults.params,
            chat_defaults=files.defaults.chat,
            engine=engine,
            loop=SyncLoop(engine),
            encoder=PromptEncoder(tokenizer, num_valid_ids, model_config.image_token_id),
            inputs=InputProcessor(tokenizer, eos_token_ids, num_valid_ids, limits, config.seed),
            limits=limits,
            modes=modes,
            worker=worker,
        )

    @property
    def local(self) -> EngineRuntime:
        """Itself: the engine is in this process."""
        return self

    def stats(self) -> EngineStats:
        """Totals of the engine."""
        return self.engine.stats()


def _engine(config: EngineConfig, groups: RankGroups | None, parts: tuple[Any, ...]) -> LLMEngine:
    if groups is not None:
        return (OverlappedLockstepEngine if config.overlap else LockstepEngine)(*parts, groups=groups)
    return OverlappedEngine(*parts) if config.overlap else LLMEngine(*parts)


def _selection(config: EngineConfig, num_threads: int, environment: EnvReport) -> tuple[Any, ...]:
    """Arguments of `select_backend`; where a GPU may be used, its settings are in force afterwards."""
    if cuda_unavailable(config.device) is None:
        use_kernel_cache(environment.settings.get("kernel_cache_dir"))
        disabled = environment.settings.get("disable_sync_guard")
        if disabled is not None:  # else it stays as it is, since it is the whole process's
            SYNC_GUARD.enabled = not disabled
    numerics, invariant = config.numerics, config.batch_invariant
    return config.backend, config.device, num_threads, config.cpu_isa, numerics, invariant


def _modes(config: EngineConfig, backend: str) -> RunModes:
    wants_confidences = config.speculative.report_confidences
    return RunModes(bool(config.batch_invariant), config.numerics.value, backend, wants_confidences)


def _scheduler(
    config: EngineConfig, model_config: DeepSeekV41Config, worker: Worker, costs: CostCurves | None
) -> Scheduler:
    scheduler = Scheduler(_scheduler_config(config, model_config, worker))
    if costs is not None:
        scheduler.set_cost_curves(costs.step, costs.draft, costs.is_guess)
    scheduler.set_estimator(StepEstimator(worker.model_shape, config.yoco.mode))
    return scheduler


def _scheduler_config(config: EngineConfig, model_config: DeepSeekV41Config, worker: Worker) -> SchedulerConfig:
    options, memory = config.scheduler, worker.memory_plan
    assert options.max_num_batched_tokens and options.max_prefill_chunk and options.max_model_len, "not resolved"
    return SchedulerConfig(
        num_blocks=memory.num_blocks,
        block_size=memory.block_size,
        num_state_slots=memory.num_slots,
        max_num_seqs=options.max_num_seqs,
        max_num_batched_tokens=options.max_num_batched_tokens,
        max_prefill_chunk=options.max_prefill_chunk,
        max_model_len=options.max_model_len,
        num_lookback=model_config.engram_max_ngram_size - 1 if model_config.has_engram else 0,
        enable_chunked_prefill=options.enable_chunked_prefill,
        num_drafts=config.speculative.num_drafts or 0,
        varlen=bool(config.speculative.varlen),
        keep_tokens=config.yoco.num_kept,
        replay_tokens=model_config.sliding_window,
        replay_multiple=max(model_config.max_ratio, 1),
        draft_window=model_config.sliding_window,
    )


def _limits(config: EngineConfig, scheduler: Scheduler) -> RequestLimits:
    options = config.scheduler
    assert options.max_model_len is not None, "not resolved"
    max_prompt_len = None if options.enable_chunked_prefill else options.max_num_batched_tokens
    return RequestLimits(options.max_model_len, scheduler.capacity_tokens, max_prompt_len, config.yoco.mode)
