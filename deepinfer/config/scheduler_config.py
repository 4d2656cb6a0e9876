"""Options of the scheduler: how many sequences and tokens a step may carry."""

from __future__ import annotations

from dataclasses import dataclass

from deepinfer.config.field_error import field_error
from deepinfer.config.size_limits import MAX_STEP_TOKENS, check_range

_MAX_SEQS = 2**20


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """Scheduler group of EngineConfig.

    Attributes:
        max_num_seqs: sequences that may run at once (each holds a state slot).
        max_num_batched_tokens: token budget of a step, prefill or decode; None: chosen by `EngineConfig.resolve`.
        max_prefill_chunk: most prompt tokens of one sequence in a step; None: the token budget.
        max_model_len: longest sequence in tokens, prompt and output; None: the model's max_position_embeddings.
        enable_chunked_prefill: False: a prompt is prefilled in one step or not yet.
    """

    max_num_seqs: int = 256
    max_num_batched_tokens: int | None = None
    max_prefill_chunk: int | None = None
    max_model_len: int | None = None
    enable_chunked_prefill: bool = True

    def __post_init__(self) -> None:
        check_range("max_num_seqs", self.max_num_seqs, 1, _MAX_SEQS)
        for name in ("max_num_batched_tokens", "max_prefill_chunk", "max_model_len"):
            check_range(name, getattr(self, name), 1, MAX_STEP_TOKENS, optional=True)
        if type(self.enable_chunked_prefill) is not bool:
            raise field_error("enable_chunked_prefill", self.enable_chunked_prefill, "True or False")
