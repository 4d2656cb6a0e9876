"""Rows of a batch job, to be replayed with the job's engine."""

from __future__ import annotations

from typing import Any

from deepinfer.batch.batch_job import BatchJob
from deepinfer.check.replay_row import ReplayRow, shared_evenly


def job_rows(job: BatchJob, share: float) -> list[ReplayRow]:
    """A share of the rows, taken evenly, with the parameters that they have in the job; rows that fail are left out.

    A job's results depend on nothing but these, so generating them again gives the tokens that it recorded
    (``deepinfer batch verify`` holds it to that).
    """
    preparer, reader = job.preparer(), job.reader()
    try:
        numbers = shared_evenly(range(job.manifest.num_rows), share)
        prepared = [preparer.prepare(reader.row(number)) for number in numbers]
    finally:
        reader.close()
    limit = job.manifest.engine["max_model_len"]
    return [ReplayRow(row.token_ids, None, row.params) for row in prepared if row.known_failure(limit) is None]


def job_options(job: BatchJob, num_rows: int) -> dict[str, Any]:
    """Options of the job's engine, in one process with at most `num_rows` rows at once."""
    return {**job.engine_options({}), "data_parallel_size": 1, "max_num_seqs": num_rows}
