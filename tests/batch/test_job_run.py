"""A worker from the first range to the results, with an engine that answers at once."""

import json
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from deepinfer.batch.batch_job import BatchJob
from deepinfer.batch.claim import Claim
from deepinfer.batch.job_budget import JobBudget
from deepinfer.batch.job_run import JobRun
from deepinfer.batch.job_status import JobStatus
from deepinfer.batch.merged_results import MergedResults
from deepinfer.batch.part_contents import PartContents
from deepinfer.batch.retry import retry_failed_rows
from deepinfer.batch.stop_signal import StopSignal
from deepinfer.errors import JobError, JobWriteError
from tests.support.batch_case import BatchCase, id_rows, results, run_job
from tests.support.fake_row_engine import FakeRowEngine


def complete(case: BatchCase, name: str = "whole", **request: object) -> bytes:
    """The results of an uninterrupted run."""
    job = case.begin(id_rows(23), name, **request)
    assert run_job(job).results is not None
    return job.directory.results.read_bytes()


def die_at(step: int, how: Callable[[], None]) -> Callable[[int], None]:
    def act(now: int) -> None:
        if now == step:
            how()

    return act


def raise_memory_error() -> None:
    raise MemoryError("no memory")


def test_results_come_in_input_order_with_all_other_columns(case: BatchCase) -> None:
    rows = [*id_rows(7), {"prompt": [9], "error": "old", "custom_id": "last", "x": None}]
    job = case.begin(rows, token_ids=True)
    outcome = run_job(job)
    found = results(job)
    assert [row["custom_id"] for row in found] == [f"r{i}" for i in range(7)] + ["last"]
    assert [row["note"] for row in found[:7]] == list(range(7)) and "prompt" not in found[0]
    assert found[7]["input_error"] == "old" and found[7]["error"] is None and found[7]["x"] is None
    assert len(found[0]["completions"][0]["token_ids"]) == 3
    assert found[6]["usage"] == {"prompt_tokens": 7, "completion_tokens": 3}
    assert outcome.results == MergedResults.read(job.directory) and outcome.results.rows == 8


def test_rows_have_seeds_of_their_own_that_follow_from_job_and_id(case: BatchCase) -> None:
    rows = [{"custom_id": name, "prompt": [5]} for name in "abc"]
    rows[2]["sampling_params"] = {"seed": 11}
    first = results(_run(case.begin(rows, "a")))
    texts = [row["completions"][0]["text"] for row in first]
    assert len(set(texts)) == 3
    turned = results(_run(case.begin(rows[::-1], "b")))
    assert [row["completions"][0]["text"] for row in turned] == texts[::-1]
    other = [row["completions"][0]["text"] for row in results(_run(case.begin(rows, "c", seed=1)))]
    assert other[2] == texts[2] and other[0] != texts[0] and other[1] != texts[1]


def _run(job: BatchJob) -> BatchJob:
    assert run_job(job).results is not None
    return job


def test_wrong_rows_stand_in_the_results_and_harm_no_other(case: BatchCase) -> None:
    rows: list[object] = [
        "{broken",
        {"prompt": 7},
        {"nothing": 1},
        {"custom_id": "good", "prompt": [5]},
        {"prompt": "x" * 500},
        {"prompt": [5, True]},
        {"prompt": [5], "sampling_params": {"temprature": 1}},
        {"prompt": [5], "sampling_params": {"top_p": 7}},
        {"prompt": [5], "sampling_params": {"logits_processors": []}},
        {"messages": [{"role": "nobody", "content": "x"}]},
        {"messages": [{"role": "user", "content": "x"}], "chat_options": {"thinkings": 1}},
    ]
    job = case.begin(rows, max_row_bytes=300)
    outcome = run_job(job)
    codes = [row["error"] and row["error"]["code"] for row in results(job)]
    assert codes == [
        "invalid_json",
        "invalid_prompt",
        "missing_column",
        None,
        "row_too_large",
        "invalid_token_id",
        "invalid_sampling_params",
        "invalid_sampling_params",
        "invalid_row",
        "invalid_messages",
        "invalid_chat_options",
    ]
    assert outcome.results is not None and sum(outcome.results.failures.values()) == 10
    assert JobStatus.read(job.directory, job.manifest).num_failed == 10


@pytest.mark.parametrize("step", range(6))
def test_an_engine_that_fails_anywhere_costs_nothing(case: BatchCase, step: int) -> None:
    expected = complete(case)
    job = case.begin(id_rows(23))
    with pytest.raises(MemoryError):
        run_job(job, FakeRowEngine(job, on_step=die_at(step, raise_memory_error)))
    before = JobStatus.read(job.directory, job.manifest)
    assert before.num_ended == 3 * step and not before.held
    engine = FakeRowEngine(job)
    run_job(BatchJob.open(job.directory.root), engine)
    assert len(engine.prompts) == 23 - 3 * step  # no finished row is repeated
    assert job.directory.results.read_bytes() == expected


def test_a_complete_job_is_not_touched_again(case: BatchCase) -> None:
    job = _run(case.begin(id_rows(23)))
    engine, before = FakeRowEngine(job), job.directory.results.stat()
    assert run_job(job, engine).results is not None and engine.num_steps == 0
    assert job.directory.results.stat().st_mtime_ns == before.st_mtime_ns


def test_cut_off_results_are_merged_anew(case: BatchCase) -> None:
    job = _run(case.begin(id_rows(23)))
    expected = job.directory.results.read_bytes()
    job.directory.results.write_bytes(expected[:-40])
    assert MergedResults.read(job.directory) is None
    engine = FakeRowEngine(job)
    run_job(job, engine)
    assert job.directory.results.read_bytes() == expected and engine.num_steps == 0


@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_a_damaged_part_is_computed_again_from_there(case: BatchCase, damage: str) -> None:
    job = _run(case.begin(id_rows(23)))
    expected = job.directory.results.read_bytes()
    path = job.directory.part(2)
    content = path.read_bytes()
    half = content.index(b"\n", len(content) // 2) - 30
    path.write_bytes({"cut": content[:half], "flip": content[:half] + b"#" + content[half + 1 :], "gone": b""}[damage])
    job.directory.results.unlink()
    engine = FakeRowEngine(job)
    run_job(job, engine)
    assert job.directory.results.read_bytes() == expected and 0 < len(engine.prompts) <= 5


def test_a_part_of_another_job_is_refused(case: BatchCase) -> None:
    other = _run(case.begin(id_rows(23), "other", seed=5))
    job = case.begin(id_rows(23))
    content = other.directory.part(1).read_bytes()
    job.directory.part(1).write_bytes(content[: content.index(b"\n") + 1])
    with pytest.raises(JobError, match=r"000001\.jsonl has a result of row \d .*belongs to another job"):
        run_job(job)
    job.directory.part(1).write_bytes(other.directory.part(3).read_bytes())
    with pytest.raises(JobError, match="not of this range"):
        run_job(job)


def test_an_input_that_changes_under_a_worker_ends_its_run(case: BatchCase) -> None:
    job = case.begin(id_rows(23), token_ids=True)
    path = case.root / "in.jsonl"
    text = path.read_text()
    path.write_text(text.replace('"r1"', '"r8"'))
    with pytest.raises(JobError, match="row 1 is not the one of the index"):
        run_job(job)
    path.write_text(text)
    run_job(job)
    assert [row["custom_id"] for row in results(job)] == [f"r{i}" for i in range(23)]


def test_want_of_memory_is_no_error_of_a_row(case: BatchCase, monkeypatch: pytest.MonkeyPatch) -> None:
    job = case.begin([{"prompt": "ab"}])
    with monkeypatch.context() as patch:
        patch.setattr(type(job.model.tokenizer), "encode_prompt", lambda self, text: raise_memory_error())
        with pytest.raises(MemoryError):
            run_job(job)
    outcome = run_job(job)
    assert outcome.results is not None and not outcome.results.failures


def test_failed_rows_are_done_again_on_request_only(case: BatchCase) -> None:
    job = case.begin(id_rows(23))
    engine = FakeRowEngine(job)
    engine.fails = lambda ids: "bad_day" if len(ids) == 3 else None
    outcome = run_job(job, engine)
    assert outcome.results is not None and outcome.results.failures == {"bad_day": 3}
    engine = FakeRowEngine(job)
    run_job(job, engine)
    assert not engine.prompts
    assert retry_failed_rows(job.directory, job.manifest) == 3
    assert not job.directory.results.exists()
    with pytest.raises(MemoryError):  # what is to be done again stays so
        run_job(job, FakeRowEngine(job, on_step=die_at(0, raise_memory_error)))
    engine = FakeRowEngine(job)
    run_job(BatchJob.open(job.directory.root), engine)
    assert len(engine.prompts) == 3
    assert job.directory.results.read_bytes() == complete(case)
    assert retry_failed_rows(job.directory, job.manifest) == 0 and job.directory.results.exists()


def test_rows_of_others_are_not_retried_under_them(case: BatchCase) -> None:
    job = case.begin([*id_rows(7), "{broken"])
    run_job(job)
    for name, words in (("merge", "being merged"), ("000001", "range 1 is being worked on")):
        claim = Claim.take(job.directory.claim(name), "somebody")
        assert claim is not None
        with pytest.raises(JobError, match=words):
            retry_failed_rows(job.directory, job.manifest)
        claim.release()
    assert retry_failed_rows(job.directory, job.manifest) == 1


def test_signals_let_rows_in_flight_end_or_drop_them(case: BatchCase) -> None:
    expected = complete(case)
    for grace_seconds, num_signals, ended in ((60.0, 1, 12), (0.0, 1, 3), (60.0, 2, 3)):
        job = case.begin(id_rows(23), f"job-{grace_seconds}-{num_signals}")

        def send(count: int = num_signals) -> None:
            for _ in range(count):
                os.kill(os.getpid(), signal.SIGTERM)

        with StopSignal() as stop:
            engine = FakeRowEngine(job, on_step=die_at(0, send))
            outcome = run_job(job, engine, stop, grace_seconds=grace_seconds)
        assert outcome.results is None and outcome.reason == "asked to stop"
        assert JobStatus.read(job.directory, job.manifest).num_ended == ended
        run_job(job)
        assert job.directory.results.read_bytes() == expected
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        ({"tokens": 30}, "budget of 30 tokens"),
        ({"minutes": 0.0}, "budget of 0 minutes"),
        ({"failures": 0}, "1 rows have failed"),
    ],
)
def test_budgets_end_a_run_in_order(case: BatchCase, budget: dict[str, float], reason: str) -> None:
    rows = [*id_rows(8), "{broken", *id_rows(23)[8:]]
    job = case.begin(rows)
    outcome = run_job(job, None, None, **budget)
    assert outcome.results is None and outcome.reason is not None and reason in outcome.reason
    status = JobStatus.read(job.directory, job.manifest)
    assert 0 <= status.num_ended < 24 and not status.held
    assert run_job(job).results is not None
    with pytest.raises(JobError, match="budget of tokens is -1"):
        run_job(job, None, None, tokens=-1)


def test_a_budget_is_noticed_where_no_row_runs(case: BatchCase, caplog: pytest.LogCaptureFixture) -> None:
    job, looks = case.begin([{"prompt": 7}] * 8), []
    run = JobRun(
        job, FakeRowEngine(job), budget=JobBudget(failures=2), stop=StopSignal(), on_step=lambda _: looks.append(1)
    )
    with caplog.at_level("INFO", "deepinfer"):
        outcome = run.run()
    assert outcome.reason == "3 rows have failed, more than the 2 that may" and len(looks) == 3
    assert "waiting" not in caplog.text


def test_the_report_is_there_before_the_results(case: BatchCase, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object) -> list[int]:
        raise MemoryError

    monkeypatch.setattr("deepinfer.batch.job_run.merge_parts", die)
    job = case.begin(id_rows(7))
    with pytest.raises(MemoryError):
        run_job(job)
    assert json.loads((job.directory.root / "report.json").read_text())["num_generated_tokens"] == 21


def test_no_more_rows_are_in_flight_than_the_bound(case: BatchCase) -> None:
    job = case.begin(id_rows(60), range_rows=60)
    engine, queues = FakeRowEngine(job), []
    make = engine.queue
    engine.queue = lambda: queues.append(make()) or queues[-1]  # type: ignore[method-assign,func-returns-value]
    run_job(job, engine)
    assert max(queue.most_open for queue in queues) == 4 + 8
    lengths = [len(prompt) for prompt in engine.prompts]
    assert lengths == sorted(lengths, reverse=True)


def test_a_full_disk_ends_the_run_and_loses_nothing(case: BatchCase) -> None:
    expected = complete(case)
    job = case.begin(id_rows(23))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill_up() -> None:
        largest = max(path.stat().st_size for path in job.directory.root.rglob("*") if path.is_file())
        resource.setrlimit(resource.RLIMIT_FSIZE, (min(largest, 700), limits[1]))

    try:
        with pytest.raises(JobWriteError, match=r"cannot be written \(File too large\)"):
            run_job(job, FakeRowEngine(job, on_step=die_at(2, fill_up)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    for number in range(job.manifest.num_ranges):
        assert not PartContents.read(job.directory.part(number)).is_damaged
    run_job(job)
    assert job.directory.results.read_bytes() == expected


def test_a_directory_that_cannot_be_written(case: BatchCase, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JobWriteError, match="cannot be written"):
        case.begin(id_rows(3), "file/job")
    job = case.begin(id_rows(23))
    job.directory.parts.rmdir()
    job.directory.parts.write_text("not a folder")
    with pytest.raises(JobWriteError, match="cannot be written"):
        run_job(job)


def test_openai_rows_give_openai_results(case: BatchCase) -> None:
    def request(name: str, body: object, url: str = "/v1/completions") -> dict[str, object]:
        return {"custom_id": name, "method": "POST", "url": url, "body": body}

    job = case.begin(
        [request("a", {"model": "m", "prompt": [5, 6], "n": 2}), request("b", {"prompt": [5], "echo": True})]
    )
    assert job.manifest.input.format == "openai"
    run_job(job)
    good, bad = results(job)
    body = good["response"]["body"]
    assert good["id"].startswith("batch_req_") and good["response"]["status_code"] == 200 and good["error"] is None
    assert body["object"] == "text_completion" and [item["index"] for item in body["choices"]] == [0, 1]
    assert body["usage"] == {"prompt_tokens": 2, "completion_tokens": 6, "total_tokens": 8}
    assert bad["response"]["status_code"] == 400
    assert bad["response"]["body"]["error"]["code"] == "unsupported_field"


def test_two_workers_share_a_job_and_one_takes_over(case: BatchCase) -> None:
    expected = complete(case)
    job = case.begin(id_rows(23))
    first = FakeRowEngine(job)
    second = FakeRowEngine(job)

    def run_second(step: int) -> None:
        if step == 1:  # the first worker holds its ranges meanwhile, so the second one must not wait for it
            stop = StopSignal()
            second.on_step = lambda now: stop.request() if now == 1 else None
            assert run_job(job, second, stop).results is None

    first.on_step = run_second
    assert run_job(job, first).results is not None
    assert job.directory.results.read_bytes() == expected
    assert len(first.prompts) + len(second.prompts) == 23 and second.prompts
    timings = [json.loads(line) for path in job.directory.timings.glob("*.jsonl") for line in path.open()]
    assert sorted(line["row"] for line in timings) == list(range(23))
