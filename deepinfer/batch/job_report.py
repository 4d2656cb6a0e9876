"""What a job took, over all its runs and workers, as text, JSON and a file for Prometheus."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from deepinfer.batch.atomic_file import write_atomically
from deepinfer.batch.job_directory import JobDirectory
from deepinfer.batch.job_manifest import JobManifest
from deepinfer.config.strict_json import read_json_object
from deepinfer.errors import JobError


@dataclass(frozen=True, slots=True)
class JobReport:
    """Made by `read` from the figures that workers left. A killed worker's are up to five seconds old.

    Attributes:
        num_rows: of the input.
        failures: code -> rows that failed, those of retried rows included.
        num_sessions: runs of workers.
        worker_seconds: their sum.
        num_prompt_tokens, num_generated_tokens: of rows that ended.
        prefill_seconds, decode_seconds: inside steps of the engines, by kind.
        num_cached_tokens: prompt tokens that were not computed, thanks to a saved prefix.
        num_prefill_tokens, num_decode_tokens: rows computed in steps, wrong drafts included.
        num_recomputed_tokens, num_preemptions: what too small a cache cost.
        num_drafts_verified, num_drafts_accepted: of speculative decoding.
        peak_kv_use: highest share of cache blocks in use in any run.
    """

    num_rows: int
    failures: dict[str, int]
    num_sessions: int
    worker_seconds: float
    num_prompt_tokens: int
    num_generated_tokens: int
    prefill_seconds: float
    decode_seconds: float
    num_cached_tokens: int
    num_prefill_tokens: int
    num_decode_tokens: int
    num_recomputed_tokens: int
    num_preemptions: int
    num_drafts_verified: int
    num_drafts_accepted: int
    peak_kv_use: float

    @classmethod
    def read(cls, directory: JobDirectory, manifest: JobManifest) -> JobReport:
        """Add up what is there; a file that cannot be read is left out."""
        sums, failures, peak, num_sessions = Counter[str](), Counter[str](), 0.0, 0
        for path in directory.timings.glob("*.json"):
            try:
                session = read_json_object(path, JobError)
                failures.update(session.pop("failures"))
                peak = max(peak, session.pop("peak_kv_use"))
            except (JobError, KeyError, TypeError):
                continue
            num_sessions += 1
            sums.update({name: value for name, value in session.items() if isinstance(value, (int, float))})
        counted: dict[str, Any] = {name: sums[name] for name in cls.__dataclass_fields__ if name.startswith("num_")}
        counted |= {"num_rows": manifest.num_rows, "num_sessions": num_sessions, "peak_kv_use": peak}
        counted |= {name: float(sums[name]) for name in ("prefill_seconds", "decode_seconds")}
        return cls(**counted, failures=dict(sorted(failures.items())), worker_seconds=float(sums["seconds"]))

    @property
    def prefill_rate(self) -> float | None:
        """Prompt tokens a second of prefill steps; None before the first."""
        return self.num_prompt_tokens / self.prefill_seconds if self.prefill_seconds else None

    @property
    def decode_rate(self) -> float | None:
        """New tokens a second of decode steps; None before the first."""
        return self.num_generated_tokens / self.decode_seconds if self.decode_seconds else None

    @property
    def acceptance(self) -> float | None:
        """Accepted of the verified drafts; None without drafts."""
        return self.num_drafts_accepted / self.num_drafts_verified if self.num_drafts_verified else None

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        rates = {"prefill_rate": self.prefill_rate, "decode_rate": self.decode_rate, "acceptance": self.acceptance}
        return {**asdict(self), **rates}

    def to_text(self) -> str:
        """A few lines for people."""
        failed = ", ".join(f"{number:,} {code}" for code, number in self.failures.items()) or "none"
        lines = {
            "rows": f"{self.num_rows:,}; failed: {failed}",
            "prompt tokens": f"{self.num_prompt_tokens:,}{_rate(self.prefill_rate)} of prefill",
            "new tokens": f"{self.num_generated_tokens:,}{_rate(self.decode_rate)} of decoding",
            "drafts": _share(self.num_drafts_accepted, self.num_drafts_verified, "accepted of"),
            "cache": f"{self.peak_kv_use:.0%} in use at most; {self.num_preemptions:,} preemptions, "
            f"{self.num_recomputed_tokens:,} tokens computed again; {self.num_cached_tokens:,} from saved prefixes",
            "time": f"{self.worker_seconds:,.1f} s of {self.num_sessions:,} runs of workers",
        }
        return "".join(f"{name:14}{text}\n" for name, text in lines.items())

    def write(self, directory: JobDirectory) -> None:
        """Write report.json and report.txt. Raises JobWriteError."""
        content = json.dumps(self.to_dict(), indent=1).encode("utf-8") + b"\n"
        write_atomically(directory.root / "report.json", content)
        write_atomically(directory.root / "report.txt", self.to_text().encode("utf-8"))


def _rate(rate: float | None) -> str:
    return "" if rate is None else f", {rate:,.1f} a second"


def _share(part: int, whole: int, words: str) -> str:
    return f"{part:,} {words} {whole:,} ({part / whole:.1%})" if whole else "none"
