"""EngineConfig: every option of an engine that can change a result, in one frozen value."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from deepinfer.config.cache_config import CacheConfig, check_block_size, resolve_kv_cache_dtype
from deepinfer.config.field_error import field_error
from deepinfer.config.grammar_config import GrammarConfig
from deepinfer.config.numerics import Numerics
from deepinfer.config.parallel_config import ParallelConfig
from deepinfer.config.scheduler_config import SchedulerConfig
from deepinfer.config.size_limits import check_range
from deepinfer.config.speculative_config import SpeculativeConfig
from deepinfer.config.yoco_config import YocoConfig

if TYPE_CHECKING:
    from deepinfer.config.model_config import DeepSeekV41Config

_CHOICES = {
    "backend": ("auto", "reference", "cpu", "cuda"),
    "cpu_isa": ("auto", "scalar", "avx2", "avx512", "avx512_bf16"),
    "load_format": ("auto", "dummy"),
    "engram_storage": ("auto", "disk", "host"),
    "generation_config": ("auto", "none"),
}
_GROUPS: dict[str, type[Any]] = {
    "cache": CacheConfig,
    "scheduler": SchedulerConfig,
    "grammar": GrammarConfig,
    "parallel": ParallelConfig,
}
_DEFAULT_TOKEN_BUDGET = {"cuda": 8192}
_CPU_TOKEN_BUDGET = 2048
_OVERLAPPED = ("cuda",)  # backends that overlap unless told otherwise


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Validated engine options; made by `create` from the flat keyword arguments of ``LLM``.

    Attributes:
        model: checkpoint directory or hub id; None: the bundled mini checkpoint.
        tokenizer: directory or file of another tokenizer; None: the model's.
        revision: hub revision of `model`.
        device: "auto", "cpu", "cuda" or "cuda:<index>".
        backend: "auto" (the fastest; with numerics "fp32-quant" the reference), "reference", "cpu" or "cuda".
        numerics: rounding mode.
        seed: engine seed, 0 .. 2^64-1; seeds of requests without one are derived from it.
        generation_config: "auto": the checkpoint's generation_config.json gives defaults; "none": ignored.
        load_format: "auto": weights from files; "dummy": random weights, only config.json is needed.
        engram_storage: where a GPU's engine keeps Engram tables: "host" (pinned memory, rows read by the GPU), "disk"
            (mapped files, rows gathered by the host) or "auto" (host where half of the free memory holds them). A CPU's
            engine reads the mapped files. Results do not depend on it.
        enforce_eager: a GPU's decode steps run operation by operation instead of being replayed from CUDA graphs.
        batch_invariant: results do not depend on the batch; None: the backend's default.
        num_threads: CPU threads of a forward pass, 1 .. 1024; None: by model and machine. Results do not depend on it.
        overlap: whether the host keeps the books of one step while the device computes the next; None: on a GPU
            ("cuda") alone, since on a CPU both share the cores; never with context_parallel_size > 1. Results do not
            depend on it.
        cpu_isa: instruction set of native CPU kernels: "auto" (the widest of the machine), "scalar", "avx2",
            "avx512" or "avx512_bf16". Results do not depend on it.
        cache: cache options.
        scheduler: scheduler options.
        grammar: options of structured output.
        parallel: ranks, and what they share.
        speculative: options of drafts.
        yoco: which prompt tokens go through the consumer layers.
    """

    model: str | None = None
    tokenizer: str | None = None
    revision: str | None = None
    device: str = "auto"
    backend: str = "auto"
    numerics: Numerics = Numerics.OFFICIAL
    seed: int = 0
    generation_config: str = "auto"
    load_format: str = "auto"
    engram_storage: str = "auto"
    enforce_eager: bool = False
    batch_invariant: bool | None = None
    num_threads: int | None = None
    overlap: bool | None = None
    cpu_isa: str = "auto"
    cache: CacheConfig = field(default_factory=CacheConfig)
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    grammar: GrammarConfig = field(default_factory=GrammarConfig)
    parallel: ParallelConfig = field(default_factory=ParallelConfig)
    speculative: SpeculativeConfig = field(default_factory=lambda: SpeculativeConfig.parse(None))
    yoco: YocoConfig = field(default_factory=YocoConfig)

    def __post_init__(self) -> None:
        for name in ("model", "tokenizer", "revision"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value):
                raise field_error(name, value, "None or a non-empty string")
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise field_error(name, getattr(self, name), f"one of {', '.join(allowed)}")
        if not isinstance(self.device, str) or not re.fullmatch(r"auto|cpu|cuda(:\d{1,4})?", self.device):
            raise field_error("device", self.device, "auto, cpu, cuda or cuda:<index>")
        if type(self.seed) is not int or not 0 <= self.seed < 2**64:
            raise field_error("seed", self.seed, "an integer from 0 to 2^64 - 1")
        if type(self.enforce_eager) is not bool:
            raise field_error("enforce_eager", self.enforce_eager, "True or False")
        for name in ("batch_invariant", "overlap"):
            if getattr(self, name) is not None and type(getattr(self, name)) is not bool:
                raise field_error(name, getattr(self, name), "None, True or False")
        check_range("num_threads", self.num_threads, 1, 1024, optional=True)
        self._check_pairs()

    def _check_pairs(self) -> None:
        if self.backend == "cuda" and self.device == "cpu":
            raise field_error("backend", self.backend, "reference, cpu or auto with device 'cpu'")
        if self.backend == "cpu" and self.device.startswith("cuda"):
            raise field_error("backend", self.backend, f"reference, cuda or auto with device {self.device!r}")
        resolve_kv_cache_dtype(self.cache.kv_cache_dtype, self.numerics)

    @classmethod
    def create(cls, **options: Any) -> EngineConfig:
        """Builds the groups from flat options. Raises TypeError with the nearest name for an unknown option and
        ConfigError for a wrong value.
        """
        groups: dict[str, dict[str, Any]] = {"": {}, **{name: {} for name in _GROUPS}}
        owners = _option_owners()
        for name, value in options.items():
            if name in owners:
                groups[owners[name]][name] = value
            else:
                raise TypeError(_unknown_option(name, list(owners)))
        own = groups[""]
        if "numerics" in own:
            own["numerics"] = _parse_numerics(own["numerics"])
        own["speculative"] = SpeculativeConfig.parse(own.get("speculative"))
        own["yoco"] = YocoConfig.parse(own.get("yoco"))
        for name in ("model", "tokenizer"):
            if hasattr(own.get(name), "__fspath__"):
                own[name] = str(own[name])
        return cls(**own, **{name: group(**groups[name]) for name, group in _GROUPS.items()})

    def resolve(self, model: DeepSeekV41Config, backend: str) -> EngineConfig:
        """The same options with every None and "auto" that depends on the model or backend made definite.

        Raises ConfigError when they do not fit the model or each other: block size, max_model_len, token budget,
        kept tokens, acceptance of drafts.
        """
        check_block_size(self.cache.block_size, model, backend)
        cache = replace(self.cache, kv_cache_dtype=resolve_kv_cache_dtype(self.cache.kv_cache_dtype, self.numerics))
        max_len = self.scheduler.max_model_len or model.max_position_embeddings
        if max_len > model.max_position_embeddings:
            limit = f"at most the model's max_position_embeddings ({model.max_position_embeddings})"
            raise field_error("max_model_len", max_len, limit)
        num_drafts = self.speculative.drafts_for(model)
        budget = self._token_budget(backend, max_len, num_drafts)
        chunk = min(self.scheduler.max_prefill_chunk or budget, budget)
        scheduler = replace(
            self.scheduler, max_model_len=max_len, max_num_batched_tokens=budget, max_prefill_chunk=chunk
        )
        invariant = backend != "cuda" if self.batch_invariant is None else self.batch_invariant
        acceptance = self.speculative.resolve_acceptance(invariant)
        speculative = replace(
            self.speculative,
            enabled=num_drafts > 0,
            num_drafts=num_drafts or None,
            acceptance=acceptance,
            cost_curve=self.speculative.resolve_curve(backend, acceptance),
        )
        return replace(
            self,
            backend=backend,
            cache=cache,
            scheduler=scheduler,
            batch_invariant=invariant,
            overlap=backend in _OVERLAPPED if self.overlap is None else self.overlap,
            speculative=speculative,
            yoco=self.yoco.resolve(model, num_drafts),
        )

    def _token_budget(self, backend: str, max_len: int, num_drafts: int) -> int:
        scheduler = self.scheduler
        budget = scheduler.max_num_batched_tokens
        smallest = 1 + num_drafts
        if not scheduler.enable_chunked_prefill:
            smallest = max(smallest, max_len)
            chunk = scheduler.max_prefill_chunk
            if chunk is not None and chunk < max_len:
                raise field_error("max_prefill_chunk", chunk, f"None or >= {max_len} without chunked prefill")
        if budget is None:
            return max(_DEFAULT_TOKEN_BUDGET.get(backend, _CPU_TOKEN_BUDGET), smallest)
        if budget < smallest:
            reason = "max_model_len, as chunked prefill is off" if smallest == max_len else "1 + drafts"
            raise field_error("max_num_batched_tokens", budget, f">= {smallest} ({reason})")
        return budget


def _option_owners() -> dict[str, str]:
    owners = {item.name: "" for item in fields(EngineConfig) if item.name not in _GROUPS}
    for name, group in _GROUPS.items():
        owners |= {item.name: name for item in fields(group)}
    return owners


def _unknown_option(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; known options: {', '.join(sorted(known))}"
    return f"unknown engine option {name!r}{hint}"


def _parse_numerics(value: Any) -> Numerics:
    try:
        return Numerics(value)
    except ValueError:
        names = ", ".join(item.value for item in Numerics)
        raise field_error("numerics", value, f"one of {names}") from None
