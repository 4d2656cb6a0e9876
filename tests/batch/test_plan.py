"""Plans: tokens, wrong rows and time before anything is loaded; speeds that former jobs left."""

from pathlib import Path

import pytest

from deepinfer.batch.batch_job import BatchJob
from deepinfer.batch.job_plan import JobPlan
from deepinfer.batch.job_speed import JobSpeed
from deepinfer.batch.session_totals import SessionTotals
from deepinfer.batch.speed_book import SpeedBook
from tests.support.batch_case import BatchCase

ROWS: list[object] = [
    *({"custom_id": f"r{i}", "prompt": [5] * (i + 1)} for i in range(10)),
    {"prompt": [5], "sampling_params": {"max_tokens": 600, "n": 2}},
    {"prompt": [5] * 600},
    {"prompt": []},
    "{broken",
]


def test_a_plan_counts_tokens_and_wrong_rows(case: BatchCase) -> None:
    job = case.begin(ROWS)
    plan = JobPlan.make(job, None)
    assert plan.num_rows == 14 and plan.failures == {"empty_prompt": 1, "invalid_json": 1, "prompt_too_long": 1}
    assert plan.num_prompt_tokens == 55 + 1 and plan.longest_prompt == 10
    assert plan.prompt_lengths == {0.5: 5, 0.9: 9, 0.99: 10}
    assert plan.num_allowed_tokens == 10 * 3 + 2 * 511
    assert plan.seconds is None and not list(job.directory.parts.iterdir())
    assert BatchJob.open(job.directory.root).manifest == job.manifest
    speed = JobSpeed(prefill=10.0, decode=100.0, new_share=0.5)
    assert JobPlan.make(job, speed).seconds == pytest.approx(5.6 + 1052 * 0.5 / 100)


def totals(seconds: float, num_generated: int = 40) -> SessionTotals:
    found = SessionTotals("w", 512)
    found.num_prompt_tokens, found.num_generated_tokens, found.num_allowed_tokens = 100, num_generated, 80
    found.prefill_seconds, found.decode_seconds = seconds, 2 * seconds
    return found


def test_speeds_are_kept_by_model_and_survive_a_damaged_book(case: BatchCase, tmp_path: Path) -> None:
    job, book = case.begin(ROWS), SpeedBook(tmp_path / "home" / "speeds.json")
    other = case.begin(ROWS, "fp32", engine={"numerics": "fp32"})
    assert book.find(job.manifest) is None
    book.note(job.manifest, totals(0.1))  # too short to tell
    assert book.find(job.manifest) is None
    book.note(job.manifest, totals(2.0))
    assert book.find(job.manifest) == JobSpeed(50.0, 10.0, 0.5) and book.find(other.manifest) is None
    book.note(other.manifest, totals(4.0))
    assert book.find(job.manifest) == JobSpeed(50.0, 10.0, 0.5)
    (tmp_path / "home" / "speeds.json").write_text("{half")
    assert book.find(job.manifest) is None
    book.note(job.manifest, totals(1.0))
    assert book.find(job.manifest) == JobSpeed(100.0, 20.0, 0.5)
    (tmp_path / "file").write_text("")
    SpeedBook(tmp_path / "file" / "speeds.json").note(job.manifest, totals(1.0))  # no error: it is a help only
