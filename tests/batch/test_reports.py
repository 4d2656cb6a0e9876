"""What people see of a job: progress, report, Prometheus file, one row's life."""

import io
import json
import re

import pytest

from deepinfer.batch.job_progress import JobProgress
from deepinfer.batch.job_report import JobReport
from deepinfer.batch.job_status import JobStatus
from deepinfer.batch.row_story import RowStory
from deepinfer.batch.row_tally import RowTally
from deepinfer.batch.session_totals import SessionTotals
from deepinfer.errors import JobError
from tests.support.batch_case import BatchCase, id_rows, run_job
from tests.support.fake_row_engine import FakeRowEngine


def test_a_report_adds_up_all_runs(case: BatchCase) -> None:
    job = case.begin([*id_rows(23), "{broken"])
    for _ in range(2):
        run_job(job, None, None, tokens=1, grace_seconds=0.0)
    run_job(job)
    (job.directory.timings / "killed-in-the-act.json").write_text("{half")
    report = JobReport.read(job.directory, job.manifest)
    assert report.num_rows == 24 and report.failures == {"invalid_json": 1} and report.num_sessions == 3
    assert report.num_prompt_tokens == sum(len(row["prompt"]) for row in id_rows(23))
    assert report.num_generated_tokens == 23 * 3 and report.peak_kv_use == 0.25
    assert report.decode_rate is not None and report.prefill_rate is None and report.acceptance is None
    text = (job.directory.root / "report.txt").read_text()
    assert "24; failed: 1 invalid_json" in text and "25% in use at most" in text
    assert json.loads((job.directory.root / "report.json").read_text())["num_generated_tokens"] == 69


def test_the_prometheus_file_is_well_formed(case: BatchCase) -> None:
    job = case.begin([*id_rows(9), "{broken"], 'a "job"')
    run_job(job)
    lines = (job.directory.root / "metrics.prom").read_text().splitlines()
    values = {}
    for line in lines:
        if not line.startswith("# "):
            name, labels, value = re.fullmatch(r"(\w+)\{(.*)\} (\S+)", line).groups()  # type: ignore[union-attr]
            assert labels.startswith('batch_job="a \\"job\\""')
            values[name] = float(value)
    assert values["deepinfer_batch_rows"] == values["deepinfer_batch_rows_ended"] == 10
    assert values["deepinfer_batch_rows_failed_total"] == 1
    assert values["deepinfer_batch_generated_tokens_total"] == 27
    assert sum(line.startswith("# TYPE") for line in lines) == len(values)


def test_the_tally_follows_rows_of_all_workers(case: BatchCase) -> None:
    job = case.begin(id_rows(23))
    tally, counts = RowTally(job.directory, job.manifest), []
    engine = FakeRowEngine(job, on_step=lambda step: counts.append(tally.count()))
    run_job(job, engine)
    assert counts == [3 * step for step in range(len(counts))] and tally.count() == 23
    job.directory.done(2).unlink()
    part = job.directory.part(2)
    lines, again = part.read_bytes().splitlines(keepends=True), RowTally(job.directory, job.manifest)
    for content, num_lines in ((lines[:3] + [b"half"], 3), (lines[:4], 4), (lines[:1], 1), (lines, 5)):
        part.write_bytes(b"".join(content))
        assert again.count() == 18 + num_lines
    assert tally.count() == JobStatus.read(job.directory, job.manifest).num_ended


def test_progress_is_a_line_now_and_then_without_a_terminal(case: BatchCase) -> None:
    job, stream = case.begin(id_rows(23)), io.StringIO()
    totals = SessionTotals("w", 512)
    with JobProgress(stream, job.directory, job.manifest, line_seconds=3600) as progress:
        for _ in range(100):
            progress.update(totals)
        assert stream.getvalue() == ""
        run_job(job)
        totals.num_rows, totals.num_prompt_tokens = 23, 230
        progress.show(totals)
    assert re.fullmatch(r"rows 23 of 23, 0 tokens to go at [\d,.]+ a second: 0:00 left\n", stream.getvalue())


def test_progress_on_a_terminal_and_on_nothing(case: BatchCase) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    job, totals = case.begin(id_rows(23)), SessionTotals("w", 512)
    run_job(job, None, None, tokens=1, grace_seconds=0.0)
    with JobProgress(Terminal(), job.directory, job.manifest) as progress:
        progress.show(totals)
    with JobProgress(None, job.directory, job.manifest) as progress:
        progress.show(totals)
    broken = io.StringIO()
    with JobProgress(broken, job.directory, job.manifest) as progress:
        broken.close()
        progress.show(totals)


def test_the_story_of_a_row(case: BatchCase) -> None:
    rows = [*id_rows(23), "{broken"]
    job = case.begin(rows)
    assert RowStory.read(job, "r7").state == "waiting"
    engine = FakeRowEngine(job)
    engine.fails = lambda ids: "bad_day" if len(ids) == 3 else None
    run_job(job, engine)
    story = RowStory.read(job, "r7")
    assert (story.row, story.range, story.state, story.num_attempts) == (7, 1, "done", 1)
    assert story.num_prompt_tokens == 1 and story.params["max_tokens"] == 3 and story.result is not None
    (run,) = story.runs
    assert run["seconds"] == {"scheduled": 0.5, "first_token": 1.0, "finished": 2.0} and run["generated_tokens"] == 3
    story = RowStory.read(job, "2")
    assert story.custom_id == "r2" and story.state == "failed" and story.error is not None
    assert story.error["code"] == "bad_day"
    story = RowStory.read(job, "row-23")
    assert story.state == "failed" and story.prompt is None and story.error is not None
    json.dumps(story.to_dict())
    with pytest.raises(JobError, match="no row has the id 'r99'"):
        RowStory.read(job, "r99")
