"""Environment variables: the one table of every documented ``DEEPINFER_*`` name, and the only reader of ``os.environ``.

A variable is never more than a default: an argument given in code wins. What cannot work here is refused, what makes no
difference here is ignored with a warning, and a misspelt name is pointed out.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from deepinfer.errors import ConfigError

PREFIX = "DEEPINFER_"
_MAX_DIGITS = 18
_MIN_TEMPERATURE = 1e-5
_OF_RANKS = {
    "NCCL_GRAPH_REGISTER": "0",
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
}


class EnvUse(StrEnum):
    """What becomes of a variable that is set."""

    FIELD = "field"  # default of an engine option
    SETTING = "setting"  # where and how loud: never changes a result
    IGNORED = "ignored"  # accepted with a warning, without effect
    REFUSED = "refused"  # an error, unless it holds its neutral value
    CHECKED = "checked"  # an error, unless it holds what the model says


@dataclass(frozen=True, slots=True)
class EnvVariable:
    """One row of the table.

    Attributes:
        name: the variable.
        parse: text -> value; raises ValueError that says what is allowed.
        use: what becomes of it.
        target: engine option, setting or model field (FIELD, SETTING, CHECKED), else why it is ignored or refused.
        neutral: value with which a refused variable is accepted silently.
    """

    name: str
    parse: Callable[[str], Any]
    use: EnvUse
    target: str
    neutral: Any = None


@dataclass(frozen=True, slots=True)
class EnvFinding:
    """One variable that is set in the environment.

    Attributes:
        name: the variable.
        text: its text.
        value: parsed value, None when unparsable or unknown.
        use: what becomes of it; None for a name that is not in the table.
        note: option it sets, or the reason, or the parse error.
        is_error: whether building an engine fails because of it.
    """

    name: str
    text: str
    value: Any
    use: EnvUse | None
    note: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class EnvReport:
    """Outcome of reading the environment.

    Attributes:
        fields: engine option -> default.
        settings: ``log_level``, ``logging_interval_step``, ``hf_model_dir``, ``cost_cache_dir``,
            ``cost_cache_seconds``, ``kernel_cache_dir``, ``disable_sync_guard`` as far as set.
        warnings: one line per ignored or unknown variable.
        findings: every variable with our prefix that is set.
    """

    fields: dict[str, Any]
    settings: dict[str, Any]
    warnings: tuple[str, ...]
    findings: tuple[EnvFinding, ...]

    def raise_errors(self) -> None:
        """Raise ConfigError for the first variable that is unparsable or refused."""
        for finding in self.findings:
            if finding.is_error:
                raise ConfigError(f"{finding.name}={finding.text!r}: {finding.note}")

    def check_model(self, fields: Mapping[str, Any]) -> None:
        """Raise ConfigError for a variable that says something else than the model does.

        `fields`: what the model says, by the target of the variable.
        """
        for finding in self.findings:
            if finding.use is EnvUse.CHECKED and not finding.is_error and finding.value != fields[finding.note]:
                raise ConfigError(
                    f"{finding.name}={finding.text!r}: the checkpoint's {finding.note} is {fields[finding.note]} and "
                    "decides; unset the variable"
                )


def parse_bool(text: str) -> bool:
    """``1/true/yes/on`` or ``0/false/no/off``, any case; raises ValueError otherwise."""
    word = text.strip().lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off"):
        return False
    raise ValueError("expected one of 1, true, yes, on, 0, false, no, off")


def parse_text(text: str) -> str:
    """The stripped text."""
    return text.strip()


def parse_integer(minimum: int | None) -> Callable[[str], int]:
    """Parser of decimal integers >= `minimum` (None: any)."""

    wanted = "a decimal integer" + ("" if minimum is None else f" >= {minimum}")

    def parse(text: str) -> int:
        word = text.strip()
        digits = word[1:] if word[:1] in "+-" else word
        if not (digits.isascii() and digits.isdigit()) or len(digits) > _MAX_DIGITS:
            raise ValueError(f"expected {wanted}" + (f" of at most {_MAX_DIGITS} digits" if digits.isdigit() else ""))
        if minimum is not None and int(word) < minimum:
            raise ValueError(f"expected {wanted}")
        return int(word)

    return parse


def parse_number(text: str) -> float:
    """A finite decimal number >= 0."""
    try:
        value = float(text)
    except ValueError:
        raise ValueError("expected a number >= 0") from None
    if not 0 <= value < float("inf"):
        raise ValueError("expected a finite number >= 0")
    return value


def parse_positive_number(text: str) -> float:
    """A finite decimal number > 0."""
    try:
        value = parse_number(text)
    except ValueError:
        value = 0.0
    if value == 0:
        raise ValueError("expected a finite number > 0")
    return value


def parse_temperatures(text: str) -> tuple[float, ...]:
    """Comma-separated finite numbers >= 0, raised to 1e-5 at least as the original does."""
    return tuple(max(parse_number(part), _MIN_TEMPERATURE) for part in text.split(","))


def parse_choice(*choices: str) -> Callable[[str], str]:
    """Parser of one lower-case word out of `choices`."""

    def parse(text: str) -> str:
        word = text.strip().lower()
        if word not in choices:
            raise ValueError("expected one of " + ", ".join(choices))
        return word

    return parse


_count, _positive, _any_integer = parse_integer(0), parse_integer(1), parse_integer(None)
_FIXED_GRAPHS = "draft passes follow enforce_eager, and graphs are padded to fixed sizes"
_BALANCE_LOGGED = "the log tells the balance before and after every rearrangement"
_NO_IMAGES = "image input is not built yet"
_NO_PROFILER = "the profiler is not built yet"
_NO_PREFIX_CACHE = "prefix cache and state transfer are not built yet"


def _row(name: str, parse: Callable[[str], Any], use: EnvUse, target: str, neutral: Any = None) -> EnvVariable:
    return EnvVariable(PREFIX + name, parse, use, target, neutral)


def _ignored(parse: Callable[[str], Any], reason: str, *names: str) -> tuple[EnvVariable, ...]:
    return tuple(_row(name, parse, EnvUse.IGNORED, reason) for name in names)


VARIABLES: tuple[EnvVariable, ...] = (
    _row("BATCH_INVARIANT", parse_bool, EnvUse.FIELD, "batch_invariant"),
    _row("ENFORCE_EAGER", parse_bool, EnvUse.FIELD, "enforce_eager"),
    _row("ZERO_OVERHEAD_SCHEDULING", parse_bool, EnvUse.FIELD, "overlap"),
    _row("USE_NEXTN_DECODE", _count, EnvUse.FIELD, "speculative"),
    _row("ENABLE_MTP_VARLEN", parse_bool, EnvUse.FIELD, "speculative"),
    _row("DFLASH_CONFIDENCE_HEAD_TEMPERATURE", parse_temperatures, EnvUse.FIELD, "speculative"),
    _row("YOCO_PREFILL_TRUNCATION_MODE", parse_choice("off", "mask", "compact"), EnvUse.FIELD, "yoco"),
    _row("YOCO_PREFILL_KEEP_TOKENS", _count, EnvUse.FIELD, "yoco"),
    _row("XGRAMMAR_TIMEOUT", parse_positive_number, EnvUse.FIELD, "grammar_timeout"),
    _row("XGRAMMAR_CACHE_LIMIT_BYTES", _any_integer, EnvUse.FIELD, "grammar_cache_bytes"),
    _row("XGRAMMAR_DISABLE_CACHE", parse_bool, EnvUse.FIELD, "grammar_disable_cache"),
    _row("XGRAMMAR_DEBUG", parse_bool, EnvUse.FIELD, "grammar_debug"),
    _row("SO_BUILDER_CPUS", _positive, EnvUse.FIELD, "grammar_threads"),
    _row("OVERRIDE_NUM_EXTRA_EXPERTS", _count, EnvUse.FIELD, "num_redundant_experts"),
    _row("EXPERT_REARRANGEMENT_STEP_INTERVAL", _count, EnvUse.FIELD, "expert_rebalance_interval"),
    _row("EXPERT_COUNT_WINDOW_SIZE", _positive, EnvUse.FIELD, "expert_load_window"),
    _row("PREFILL_ATTEMPT_INTERVAL", _positive, EnvUse.FIELD, "prefill_all_interval"),
    _row("PREFILL_ANY_ATTEMPT_INTERVAL", _positive, EnvUse.FIELD, "prefill_any_interval"),
    _row("CPP_LOG_LEVEL", parse_choice("off", "error", "warn", "info"), EnvUse.SETTING, "log_level"),
    _row("LOGGING_INTERVAL_STEP", _any_integer, EnvUse.SETTING, "logging_interval_step"),
    _row("HF_MODEL_DIR", parse_text, EnvUse.SETTING, "hf_model_dir"),
    _row("DECODE_PERF_CACHE_DIR", parse_text, EnvUse.SETTING, "cost_cache_dir"),
    _row("JIT_CACHE_DIR", parse_text, EnvUse.SETTING, "kernel_cache_dir"),
    _row("DECODE_PERF_CACHE_TTL_SEC", parse_number, EnvUse.SETTING, "cost_cache_seconds"),
    _row("DISABLE_SYNC_GUARD", parse_bool, EnvUse.SETTING, "disable_sync_guard"),
    _row("ACCELERATOR", parse_choice("nvidia"), EnvUse.IGNORED, "choose with LLM(device=..., backend=...)"),
    _row(
        "COMPUTE_SUM_SMALLER_PROBS",
        parse_bool,
        EnvUse.REFUSED,
        "sums of smaller probabilities are not computed; ask for SamplingParams(logprobs=-1) and sum them",
        False,
    ),
    _row("SAMPLER_FORCE_TOPK", _count, EnvUse.REFUSED, "changes results: set SamplingParams(top_k=...)", 0),
    _row(
        "DECODE_TOKEN_BLACKLIST",
        parse_text,
        EnvUse.REFUSED,
        "changes results: set SamplingParams(logit_bias=...) or allowed_token_ids",
        "",
    ),
    _row("FORCE_IMBALANCE_RATIO", parse_number, EnvUse.REFUSED, "random routing changes results", 0.0),
    _row("FORCE_LOAD_BALANCE", parse_bool, EnvUse.REFUSED, "random routing changes results", False),
    _row("ENGRAM_PAD_TOKEN", _count, EnvUse.CHECKED, "engram_pad_token_id"),
    *_ignored(_positive, "Python's own garbage collection is left alone", "GC_INTERVAL_STEP"),
    *_ignored(_count, "how many cores of a GPU communicate is NCCL's choice", "NCCL_NUM_SMS", "USERBUFFER_COMM_SMS"),
    *_ignored(_count, "a layer's weights go to other ranks all at once", "REARRANGE_P2P_GROUPS"),
    *_ignored(parse_number, "a rank that is gone is noticed at once", "GLOO_TIMEOUT", "RINGBUFFER_WARNING_INTERVAL"),
    *_ignored(_positive, "communication buffers are not watched", "NCCL_MEMORY_SAMPLE_INTERVAL_STEPS"),
    *_ignored(_positive, _BALANCE_LOGGED, "MOE_LB_STAT_INTERVAL"),
    *_ignored(parse_bool, _BALANCE_LOGGED, "SHOW_EPLB_DETAIL"),
    *_ignored(parse_bool, "loads of all steps count", "REARRANGE_AFTER_PREFILL_IN_NORMAL_ENGINE"),
    *_ignored(_positive, "the token budget bounds a step: max_num_batched_tokens", "PREFILL_MAX_SUM_SEQLEN_K"),
    *_ignored(_positive, "index scores are computed in bounded chunks", "INDEX_ATTN_MEMORY_LIMIT"),
    *_ignored(_count, "ring sizes follow from the options", "MAX_BACKTRACKING_TOKENS"),
    *_ignored(parse_number, "every running sequence has one state slot", "NUM_STATE_SLOTS_RATIO"),
    *_ignored(parse_bool, _NO_PREFIX_CACHE, "PREFILL_STORE_EXTRA_STATE"),
    *_ignored(_count, _NO_PREFIX_CACHE, "PREFILL_STORE_EXTRA_SIZE"),
    *_ignored(parse_bool, _FIXED_GRAPHS, "DFLASH_ENFORCE_EAGER"),
    *_ignored(_positive, _FIXED_GRAPHS, "CUDAGRAPH_BATCH_SIZE_INTERVAL", "DFLASH_CUDAGRAPH_BATCH_SIZE_INTERVAL"),
    *_ignored(parse_bool, _NO_IMAGES, "USE_MULTIMODAL_POOL"),
    *_ignored(parse_number, _NO_IMAGES, "MULTIMODAL_POOL_SIZE_GB", "MULTI_MODAL_WORKER_TIMEOUT"),
    *_ignored(_positive, _NO_IMAGES, "MULTI_MODAL_BUFFER_SIZE"),
    *_ignored(parse_bool, "Engram tables are read from the mapped checkpoint", "ENGRAM_FORCE_GPU_STORAGE"),
    *_ignored(parse_text, _NO_PROFILER, "PROFILE_TORCH_CUDA_MEMORY", "TORCH_PROFILER_DIR"),
    *_ignored(parse_bool, _NO_PROFILER, "ENABLE_MEMORY_TRACING", "PROFILE_HTTP_ENABLE"),
    *_ignored(_positive, _NO_PROFILER, "PROFILE_HTTP_PORT_BASE"),
    *_ignored(
        parse_text, "a switch of the original's own tests", "FUSED_SAMPLE_STRESS_TEST", "FUSED_SAMPLE_DETAIL_LOG"
    ),
)  # fmt: skip


def read_environment(environ: Mapping[str, str] | None = None) -> EnvReport:
    """Read every variable with our prefix.

    Args:
        environ: variables to read; None: the process's environment.

    Returns:
        What is set and what becomes of it. Raises nothing: see `EnvReport.raise_errors`.
    """
    variables = os.environ if environ is None else environ
    table = {variable.name: variable for variable in VARIABLES}
    findings = tuple(
        _judge(name, variables[name], table.get(name), tuple(table))
        for name in sorted(variables)
        if name.startswith(PREFIX) and variables[name].strip()  # an empty text means: not set
    )
    values = {finding.name: finding.value for finding in findings if not finding.is_error}
    findings = tuple(_judge_with(values, finding) for finding in findings)
    used = [finding for finding in findings if not finding.is_error]
    return EnvReport(
        fields=_engine_fields(values),
        settings={item.note: item.value for item in used if item.use is EnvUse.SETTING},
        warnings=tuple(f"{item.name}={item.text!r}: {item.note}" for item in used if _is_without_effect(item)),
        findings=findings,
    )


def _judge(name: str, text: str, row: EnvVariable | None, known: tuple[str, ...]) -> EnvFinding:
    if row is None:
        nearest = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {nearest[0]}?" if nearest else ""
        return EnvFinding(name, text, None, None, "unknown variable, ignored" + hint)
    try:
        value = row.parse(text)
    except ValueError as error:
        return EnvFinding(name, text, None, row.use, str(error), is_error=True)
    if row.use is EnvUse.REFUSED:
        return EnvFinding(name, text, value, row.use, row.target, is_error=value != row.neutral)
    if row.use is EnvUse.IGNORED:
        return EnvFinding(name, text, value, row.use, "ignored: " + row.target)
    return EnvFinding(name, text, value, row.use, row.target)


def _judge_with(values: Mapping[str, Any], finding: EnvFinding) -> EnvFinding:
    """The finding in the light of the other variables: the tokens to keep mean nothing when nothing is cut."""
    mode = PREFIX + "YOCO_PREFILL_TRUNCATION_MODE"
    if finding.name != PREFIX + "YOCO_PREFILL_KEEP_TOKENS" or finding.is_error or values.get(mode, "off") != "off":
        return finding
    return replace(finding, use=EnvUse.IGNORED, note=f"ignored: no effect without {mode}=mask or compact")


def _is_without_effect(finding: EnvFinding) -> bool:
    return finding.use is None or finding.use is EnvUse.IGNORED


def _engine_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Engine options from parsed values; several variables make one `speculative` and one `yoco` option."""
    fields: dict[str, Any] = {}
    for row in VARIABLES:
        if row.use is EnvUse.FIELD and row.target not in ("speculative", "yoco") and row.name in values:
            fields[row.target] = values[row.name]
    drafts = {
        option: values[PREFIX + name]
        for name, option in (
            ("USE_NEXTN_DECODE", "num_drafts"),
            ("ENABLE_MTP_VARLEN", "varlen"),
            ("DFLASH_CONFIDENCE_HEAD_TEMPERATURE", "temperatures"),
        )
        if PREFIX + name in values
    }
    if drafts:
        fields["speculative"] = drafts
    mode = values.get(PREFIX + "YOCO_PREFILL_TRUNCATION_MODE")
    if mode == "off":
        fields["yoco"] = "off"
    elif mode is not None:
        fields["yoco"] = {"mode": mode, "keep_tokens": values.get(PREFIX + "YOCO_PREFILL_KEEP_TOKENS", 0)}
    return fields


def set_default(name: str, value: str | None) -> str | None:
    """Set a variable that another library reads, unless it is set already; returns what is in force."""
    if value is not None:
        os.environ.setdefault(name, value)
    return os.environ.get(name)


def torchrun_variables() -> dict[str, str] | None:
    """What torchrun tells this process about its world; None where it did not start it."""
    return dict(os.environ) if "TORCHELASTIC_RUN_ID" in os.environ else None


def child_environment(package_home: str) -> dict[str, str]:
    """The environment of a process that is to find this package, wherever this process has found it.

    NVLink multicast is off there unless the user says otherwise: a program that uses it and is killed can leave GPUs
    that others share out of order. Nor does NCCL register a graph's buffers with other ranks while it is captured:
    these may be replaying one.
    """
    paths = [package_home, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**_OF_RANKS, **os.environ, "PYTHONPATH": os.pathsep.join(paths)}
