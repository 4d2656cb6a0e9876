"""Small batch jobs for tests."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from deepinfer.batch.batch_job import BatchJob
from deepinfer.batch.job_budget import JobBudget
from deepinfer.batch.job_outcome import JobOutcome
from deepinfer.batch.job_request import JobRequest
from deepinfer.batch.job_run import JobRun
from deepinfer.batch.stop_signal import StopSignal
from tests.support.fake_row_engine import FakeRowEngine


def write_lines(path: Path, rows: Iterable[Any]) -> Path:
    """JSON lines; texts among the rows are lines as they are."""
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def id_rows(num_rows: int) -> list[dict[str, Any]]:
    """Rows with ids for prompts, of different lengths."""
    return [{"custom_id": f"r{i}", "prompt": [20 + i % 50] * (1 + i % 7), "note": i} for i in range(num_rows)]


class BatchCase:
    """A job in a directory of its own.

    Args:
        root: where input and job go.
        model: directory of a checkpoint.
    """

    def __init__(self, root: Path, model: Path) -> None:
        self.root = root
        self.model = str(model)

    def begin(self, rows: Iterable[Any], name: str = "job", **request: Any) -> BatchJob:
        """Begin a job over rows."""
        path = write_lines(self.root / "in.jsonl", rows)
        return self.begin_file(path, name, **request)

    def begin_file(self, path: Path, name: str = "job", **request: Any) -> BatchJob:
        """Begin a job over a file."""
        engine = {"model": self.model, "backend": "cpu", **request.pop("engine", {})}
        given = {"sampling": {"max_tokens": 3}, "range_rows": 5, **request}
        return BatchJob.begin(JobRequest(path, engine=engine, **given), self.root / name)


def run_job(
    job: BatchJob, engine: FakeRowEngine | None = None, stop: StopSignal | None = None, **budget: Any
) -> JobOutcome:
    """One worker's run."""
    grace = budget.pop("grace_seconds", 10.0)
    return JobRun(
        job,
        engine or FakeRowEngine(job),
        budget=JobBudget(**budget),
        stop=stop or StopSignal(),
        grace_seconds=grace,
    ).run()


def results(job: BatchJob) -> list[dict[str, Any]]:
    """The merged results."""
    return [json.loads(line) for line in job.directory.results.read_text(encoding="utf-8").splitlines()]
