"""Rows that run again: equal, or named."""

import json
import re

from deepinfer.batch.part_contents import PartContents
from deepinfer.batch.part_record import PartRecord
from deepinfer.batch.verify import verify_job
from tests.support.batch_case import BatchCase, id_rows, run_job
from tests.support.fake_row_engine import FakeRowEngine


def test_recorded_rows_give_the_same_again(case: BatchCase) -> None:
    job = case.begin([*id_rows(23), "{broken"])
    run_job(job)
    for num_rows, checked in ((1, 1), (7, 7), (24, 24), (99, 24)):
        verdict = verify_job(job, FakeRowEngine(job), num_rows)
        assert (verdict.num_checked, verdict.differing, verdict.results_are_whole) == (checked, (), True)
    some = [tuple(map(tuple, _checked(case, job, seed))) for seed in range(6)]
    assert len(set(some)) > 1


def _checked(case: BatchCase, job, seed: int) -> list[list[int]]:  # type: ignore[no-untyped-def]
    engine = FakeRowEngine(job)
    verify_job(job, engine, 3, seed)
    return engine.prompts


def test_a_result_that_somebody_changed_is_named(case: BatchCase) -> None:
    job = case.begin(id_rows(23))
    run_job(job)
    path = job.directory.part(1)
    lines = path.read_bytes().splitlines(keepends=True)
    record = PartRecord.decode(lines[2])
    assert record is not None and record.result is not None
    lines[2] = record._replace(result=re.sub(rb'"text":"\d+', b'"text":"0', record.result)).encode()
    path.write_bytes(b"".join(lines))
    assert not PartContents.read(path).is_damaged
    verdict = verify_job(job, FakeRowEngine(job), 23)
    assert verdict.differing == (record.row,) and not verdict.is_good


def test_results_that_somebody_changed_are_noticed(case: BatchCase) -> None:
    job = case.begin(id_rows(7))
    run_job(job)
    content = job.directory.results.read_bytes()
    job.directory.results.write_bytes(content.replace(b"r3", b"r9"))
    verdict = verify_job(job, FakeRowEngine(job), 1)
    assert verdict.results_are_whole is False and not verdict.is_good
    job.directory.results.write_bytes(content[:-1])
    assert verify_job(job, FakeRowEngine(job), 1).results_are_whole is False


def test_an_unfinished_job_can_be_verified(case: BatchCase) -> None:
    job = case.begin(id_rows(23))
    run_job(job, None, None, tokens=1, grace_seconds=0.0)
    verdict = verify_job(job, FakeRowEngine(job), 99)
    assert 0 < verdict.num_checked < 23 and verdict.results_are_whole is None and verdict.is_good
    json.dumps(verdict.to_dict())
