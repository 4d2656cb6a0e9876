"""Workers of a batch job in processes of their own, to be killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
from multiprocessing.process import BaseProcess
from pathlib import Path

_PRELOADED = ["deepinfer.llm", "deepinfer.batch.job_run", "tests.support.batch_child"]


def work(root: str, max_num_seqs: int) -> None:
    """Resume a job with the real engine; the exit code says whether it was completed."""
    from deepinfer.batch.batch_job import BatchJob
    from deepinfer.batch.job_budget import JobBudget
    from deepinfer.batch.job_run import JobRun
    from deepinfer.batch.stop_signal import StopSignal
    from deepinfer.llm import LLM

    job = BatchJob.open(Path(root))
    with StopSignal() as stop, LLM(**job.engine_options({"max_num_seqs": max_num_seqs, "num_threads": 1})) as llm:
        outcome = JobRun(job, llm, budget=JobBudget(), stop=stop).run()
    raise SystemExit(0 if outcome.results is not None else 4)


class BatchChildren:
    """Starts workers quickly: one process has imported everything and is forked."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(_PRELOADED)

    def start(self, root: Path, max_num_seqs: int) -> BaseProcess:
        """A worker on the job in `root`."""
        child = self._context.Process(target=work, args=(str(root), max_num_seqs))
        child.start()
        return child


def kill(child: BaseProcess) -> None:
    """As an operating system does it that needs the memory."""
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join()


def num_recorded(parts: Path) -> int:
    """Lines in all parts, whole or not."""
    return sum(path.read_bytes().count(b"\n") for path in parts.glob("*.jsonl"))
