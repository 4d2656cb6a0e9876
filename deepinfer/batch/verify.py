"""Runs rows of a job again and compares them with what was recorded, bit for bit."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator

from deepinfer.batch.batch_job import BatchJob
from deepinfer.batch.engine_fields import require_same_fields
from deepinfer.batch.job_verdict import JobVerdict
from deepinfer.batch.merged_results import MergedResults
from deepinfer.batch.part_contents import PartContents
from deepinfer.batch.part_record import PartRecord
from deepinfer.batch.prepared_row import PreparedRow
from deepinfer.batch.result_writer import ResultWriter
from deepinfer.batch.row_answer import RowAnswer
from deepinfer.batch.row_engine import RowEngine
from deepinfer.outputs import RequestFailure


def verify_job(job: BatchJob, engine: RowEngine, num_rows: int, seed: int = 0) -> JobVerdict:
    """Run a sample of the recorded rows again.

    Args:
        job: complete or not.
        engine: with the job's options.
        num_rows: of the sample; all recorded rows when there are fewer.
        seed: of the choice.
    """
    require_same_fields(engine.config, job.manifest.engine)
    recorded = _sample(job, num_rows, seed)
    writer = ResultWriter(job.manifest, job.model.tokenizer)
    differing = [row for row, record in _again(job, engine, writer, sorted(recorded)) if record != recorded[row]]
    return JobVerdict(len(recorded), tuple(sorted(differing)), _are_whole(job))


def _sample(job: BatchJob, num_rows: int, seed: int) -> dict[int, PartRecord]:
    """Records of rows that were chosen evenly from all that have one; one range is held at a time."""
    draws, kept, num_seen = random.Random(seed), dict[int, PartRecord](), 0
    for number in range(job.manifest.num_ranges):
        path = job.directory.part(number)
        entries = PartContents.read(path).entries
        for row in sorted(entries):
            place = len(kept) if len(kept) < num_rows else draws.randrange(num_seen + 1)
            num_seen += 1
            if place >= num_rows:
                continue
            if len(kept) == num_rows:
                del kept[sorted(kept)[place]]
            with open(path, "rb") as part:
                kept[row] = entries[row].record(part)
    return kept


def _again(job: BatchJob, engine: RowEngine, writer: ResultWriter, rows: list[int]) -> Iterator[tuple[int, PartRecord]]:
    """Number and new record of each row."""
    reader, preparer, waiting = job.reader(), job.preparer(), dict[str, PreparedRow]()
    try:
        with engine.queue() as queue:
            for number in rows:
                prepared = preparer.prepare(reader.row(number))
                if prepared.error is not None:
                    failure = RequestFailure.from_exception(prepared.error)
                    yield number, writer.record(RowAnswer.failed(prepared, failure))
                    continue
                waiting[prepared.row.custom_id] = prepared
                prompt = {"prompt_token_ids": prepared.token_ids}
                queue.add(prompt, prepared.params, request_id=prepared.row.custom_id)
            while len(queue):
                for output in queue.poll():
                    answer = writer.answer(waiting.pop(output.request_id), output)
                    yield answer.prepared.row.number, writer.record(answer)
    finally:
        reader.close()


def _are_whole(job: BatchJob) -> bool | None:
    merged = MergedResults.read(job.directory)
    if merged is None:
        return False if job.directory.merged.exists() else None
    with open(job.directory.results, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == merged.sha256
