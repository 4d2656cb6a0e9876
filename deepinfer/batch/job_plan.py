"""What a job will be, before any weights are loaded: tokens, wrong rows, and how long it takes."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from deepinfer.batch.batch_job import BatchJob
from deepinfer.batch.job_speed import JobSpeed

_SHARES = (0.5, 0.9, 0.99)


@dataclass(frozen=True, slots=True)
class JobPlan:
    """Made by `make`, which reads and tokenizes every row.

    Attributes:
        num_rows: of the input.
        failures: code -> rows that will fail, as far as that is known without the engine.
        num_prompt_tokens: of the other rows.
        longest_prompt: tokens.
        prompt_lengths: share of the rows -> tokens that so many have at most.
        num_allowed_tokens: new tokens at most, over all completions.
        seconds: predicted from `speed`; None when no job of this model ran on this machine.
        speed: measured by former jobs here.
    """

    num_rows: int
    failures: dict[str, int]
    num_prompt_tokens: int
    longest_prompt: int
    prompt_lengths: dict[float, int]
    num_allowed_tokens: int
    seconds: float | None
    speed: JobSpeed | None

    @classmethod
    def make(cls, job: BatchJob, speed: JobSpeed | None) -> JobPlan:
        """Held in memory are a window of rows, and how many rows have each length."""
        limit = job.manifest.engine["max_model_len"]
        lengths, failures, allowed = Counter[int](), Counter[str](), 0
        reader, preparer = job.reader(), job.preparer()
        try:
            for row in reader.rows(range(job.manifest.num_rows)):
                prepared = preparer.prepare(row)
                code = prepared.known_failure(limit)
                if code is not None:
                    failures[code] += 1
                    continue
                lengths[len(prepared.token_ids)] += 1
                allowed += prepared.num_allowed_tokens(limit)
        finally:
            reader.close()
        num_tokens = sum(length * number for length, number in lengths.items())
        seconds = None
        if speed is not None:
            seconds = num_tokens / speed.prefill + allowed * speed.new_share / speed.decode
        return cls(
            num_rows=job.manifest.num_rows,
            failures=dict(sorted(failures.items())),
            num_prompt_tokens=num_tokens,
            longest_prompt=max(lengths, default=0),
            prompt_lengths={share: _quantile(lengths, share) for share in _SHARES},
            num_allowed_tokens=allowed,
            seconds=seconds,
            speed=speed,
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        lengths = {str(share): length for share, length in self.prompt_lengths.items()}
        return {**asdict(self), "prompt_lengths": lengths}


def _quantile(lengths: Counter[int], share: float) -> int:
    """The least length that `share` of the rows have at most."""
    wanted, seen = share * lengths.total(), 0
    for length in sorted(lengths):
        seen += lengths[length]
        if seen >= wanted:
            return length
    return 0
