"""What one worker has done since it began, as figures that it leaves behind."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

from deepinfer.batch.atomic_file import write_atomically
from deepinfer.batch.row_answer import RowAnswer
from deepinfer.batch.row_engine import EngineFigures
from deepinfer.outputs import RequestOutput

_FIGURES: Final = (
    "num_prefill_tokens",
    "num_decode_tokens",
    "num_recomputed_tokens",
    "num_preemptions",
    "num_drafts_verified",
    "num_drafts_accepted",
)


class SessionTotals:
    """Counted up by a worker; written now and then, so that a killed worker's figures are not lost altogether.

    Attributes:
        num_rows: that ended.
        failures: code -> rows that failed.
        num_prompt_tokens, num_generated_tokens: of rows that did not fail.
        num_allowed_tokens: new tokens that those rows might have got.
        prefill_seconds, decode_seconds: inside steps of the engine, by kind.
    """

    def __init__(self, worker: str, max_model_len: int) -> None:
        self._worker = worker
        self._max_model_len = max_model_len
        self._began = time.time()
        self._clock = time.monotonic()
        self.num_rows = 0
        self.failures: Counter[str] = Counter()
        self.num_prompt_tokens = 0
        self.num_generated_tokens = 0
        self.num_allowed_tokens = 0
        self.prefill_seconds = 0.0
        self.decode_seconds = 0.0
        self._num_cached_tokens = 0
        self._peak_kv_use = 0.0
        self._figures: EngineFigures | None = None

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._clock

    @property
    def num_tokens(self) -> int:
        """Prompt and generated tokens of rows that ended."""
        return self.num_prompt_tokens + self.num_generated_tokens

    def add_row(self, answer: RowAnswer, output: RequestOutput | None) -> None:
        """Count a row that ended; `output` is None when the engine never had it."""
        self.num_rows += 1
        if answer.failure is not None:
            self.failures[answer.failure.code] += 1
        else:
            self.num_prompt_tokens += answer.num_prompt_tokens
            self.num_generated_tokens += answer.num_generated_tokens
            self.num_allowed_tokens += answer.prepared.num_allowed_tokens(self._max_model_len)
        if output is not None:
            self._num_cached_tokens += output.num_cached_tokens

    def add_step(self, seconds: float, figures: EngineFigures) -> None:
        """Count a step of the engine, whose figures behind it are given; its time is prefill's or decoding's."""
        before = 0 if self._figures is None else self._figures.num_prefill_steps
        if figures.num_prefill_steps > before:
            self.prefill_seconds += seconds
        else:
            self.decode_seconds += seconds
        self._figures = figures
        self._peak_kv_use = max(self._peak_kv_use, figures.kv_use)

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return {
            "worker": self._worker,
            "began": self._began,
            "seconds": self.seconds,
            "num_rows": self.num_rows,
            "failures": dict(self.failures),
            "num_prompt_tokens": self.num_prompt_tokens,
            "num_generated_tokens": self.num_generated_tokens,
            "num_cached_tokens": self._num_cached_tokens,
            "prefill_seconds": self.prefill_seconds,
            "decode_seconds": self.decode_seconds,
            "peak_kv_use": self._peak_kv_use,
            **{name: 0 if self._figures is None else getattr(self._figures, name) for name in _FIGURES},
        }

    def write(self, path: Path) -> None:
        """Write the file. Raises JobWriteError."""
        write_atomically(path, json.dumps(self.to_dict()).encode("utf-8") + b"\n")
