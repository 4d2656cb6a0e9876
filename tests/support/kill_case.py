"""A batch job over the bundled model that is killed again and again, and judged by an uninterrupted one."""

from __future__ import annotations

import json
import random
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

from deepinfer.batch.batch_job import BatchJob
from deepinfer.batch.job_request import JobRequest
from deepinfer.engine.model_path import bundled_model_path
from tests.support.batch_case import write_lines
from tests.support.batch_child import BatchChildren, kill, num_recorded

_MAX_NUM_SEQS = 6


class KillCase:
    """Jobs over one input.

    Args:
        root: where input and jobs go.
        num_rows: of the input: prompts of the bundled model's evaluation, over and over, greedy and seeded.
        seed: of the moments of killing.
    """

    def __init__(self, root: Path, num_rows: int, seed: int) -> None:
        self._root = root
        self._children = BatchChildren()
        self._random = random.Random(seed)
        rows = [json.loads(line) for line in (bundled_model_path() / "eval.jsonl").open(encoding="utf-8")]
        self._num_rows = num_rows
        self._input = write_lines(root / "in.jsonl", (self._row(i, rows[i % len(rows)]) for i in range(num_rows)))

    def _row(self, number: int, row: dict[str, str]) -> dict[str, object]:
        params = {"temperature": 0.0 if number % 3 == 0 else 1.0, "max_tokens": 4 + number % 9}
        return {"custom_id": f"{row['id']}/{number}", "prompt": row["prompt"], "sampling_params": params, "n": number}

    def begin(self, name: str) -> BatchJob:
        """A job in a new directory."""
        return BatchJob.begin(JobRequest(self._input, range_rows=max(8, self._num_rows // 32)), self._root / name)

    def start(self, job: BatchJob) -> BaseProcess:
        """A worker."""
        return self._children.start(job.directory.root, _MAX_NUM_SEQS)

    def finish(self, job: BatchJob) -> bytes:
        """Resume until the job is complete; its results."""
        child = self.start(job)
        child.join()
        assert child.exitcode == 0
        return job.directory.results.read_bytes()

    def kill_on_the_way(self, job: BatchJob, share: float, children: list[BaseProcess], victim: int) -> None:
        """Kill one of the children at a random moment behind the time when `share` of the rows are recorded.

        A worker that was killed loses the rows in flight alone: what was recorded stays recorded.
        """
        self.wait_for(job, share, children[victim])
        time.sleep(self._random.uniform(0, 0.02))
        kill(children[victim])

    def wait_for(self, job: BatchJob, share: float, child: BaseProcess) -> None:
        """Until `share` of the rows are recorded, or the child has ended."""
        while num_recorded(job.directory.parts) < share * self._num_rows and child.is_alive():
            time.sleep(0.005)

    def check(self, job: BatchJob, expected: bytes) -> None:
        """The results equal those of an uninterrupted run, each row once, and no finished row was repeated."""
        found = job.directory.results.read_bytes()
        assert found == expected
        names = [json.loads(line)["custom_id"] for line in found.splitlines()]
        assert len(names) == len(set(names)) == self._num_rows
        assert num_recorded(job.directory.parts) == self._num_rows
