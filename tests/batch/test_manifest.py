"""Manifests: what a job depends on, and every way in which somebody else's job is refused."""

import json
from dataclasses import fields

import pytest

from deepinfer.batch.batch_job import BatchJob
from deepinfer.batch.column_names import ColumnNames
from deepinfer.batch.engine_fields import MODEL_FIELDS, RESULT_FIELDS, RUN_FIELDS
from deepinfer.config.cache_config import CacheConfig
from deepinfer.config.engine_config import EngineConfig
from deepinfer.config.grammar_config import GrammarConfig
from deepinfer.config.parallel_config import ParallelConfig
from deepinfer.config.scheduler_config import SchedulerConfig
from deepinfer.errors import ConfigError, DeepInferError, JobError
from tests.support.batch_case import BatchCase, id_rows, run_job, write_lines


def test_every_engine_option_is_either_kind() -> None:
    groups = {"cache", "scheduler", "grammar", "parallel"}
    names = [item.name for item in fields(EngineConfig) if item.name not in groups]
    names += [
        item.name for group in (CacheConfig, SchedulerConfig, GrammarConfig, ParallelConfig) for item in fields(group)
    ]
    assert sorted(names) == sorted((*RESULT_FIELDS, *RUN_FIELDS, *MODEL_FIELDS))


def test_a_manifest_reads_back_and_says_that_results_are_invariant(case: BatchCase) -> None:
    job = case.begin(id_rows(11), engine={"max_num_seqs": 9})
    again = BatchJob.open(job.directory.root)
    assert again.manifest == job.manifest and again.manifest.digest == job.manifest.digest
    assert job.manifest.engine["batch_invariant"] is True and job.manifest.run["max_num_seqs"] == 9
    assert [list(job.manifest.rows_of(number)) for number in (0, 2)] == [[0, 1, 2, 3, 4], [10]]
    options = again.engine_options({"num_threads": 2})
    assert options["batch_invariant"] is True and options["backend"] == "cpu" and options["num_threads"] == 2
    with pytest.raises(ConfigError, match="batch_invariant = False"):
        case.begin(id_rows(1), "other", engine={"batch_invariant": False})


def test_the_same_request_finds_its_job_and_others_are_refused(case: BatchCase) -> None:
    job = case.begin(id_rows(7))
    assert case.begin(id_rows(7)).manifest == job.manifest
    for request, words in (
        ({"sampling": {"max_tokens": 4}}, "its sampling is max_tokens = 3, not 4"),
        ({"seed": 1}, "its seed is 0, not 1"),
        ({"token_ids": True}, "its token_ids"),
        ({"range_rows": 3}, "its range_rows is 5, not 3"),
        ({"chat": {"thinking": True}}, "its chat is thinking = None, not True"),
        ({"columns": ColumnNames(keep_prompts=True)}, "its columns is keep_prompts"),
        ({"engine": {"max_model_len": 50}}, "its engine is max_model_len = 512, not 50"),
        ({"engine": {"numerics": "fp32"}}, "another job is in this directory"),
    ):
        with pytest.raises(JobError, match=words):
            case.begin(id_rows(7), **request)
    with pytest.raises(JobError, match="its input is num_bytes"):
        case.begin(id_rows(8))


def test_the_same_request_from_elsewhere_and_with_another_speed_counts_this_time(case: BatchCase) -> None:
    job = case.begin(id_rows(7), engine={"max_num_seqs": 9, "grammar_timeout": 5})
    moved = (case.root / "in.jsonl").rename(case.root / "moved.jsonl")
    again = case.begin_file(moved, engine={"num_threads": 1, "max_num_seqs": 2})
    assert again.manifest.input_path == moved and again.manifest.digest == job.manifest.digest
    assert again.manifest.run == {"max_num_seqs": 2, "num_threads": 1, "grammar_timeout": 5}
    assert run_job(again).results is not None


def test_a_changed_input_is_refused(case: BatchCase) -> None:
    job = case.begin(id_rows(7))
    path = case.root / "in.jsonl"
    text = path.read_text()
    path.write_text(text.replace("r3", "r9"))
    with pytest.raises(JobError, match="was changed since the job began"):
        BatchJob.open(job.directory.root)
    path.write_text(text + "\n")
    with pytest.raises(JobError, match="was changed since the job began"):
        BatchJob.open(job.directory.root)
    path.unlink()
    with pytest.raises(JobError, match="no such file"):
        BatchJob.open(job.directory.root)
    path.write_text(text)
    BatchJob.open(job.directory.root)


def test_another_model_is_refused(case: BatchCase, tmp_path, random_model) -> None:  # type: ignore[no-untyped-def]
    import shutil

    model = tmp_path / "model"
    shutil.copytree(random_model, model)
    job = case.begin(id_rows(7), engine={"model": str(model)})
    for name, change in (
        ("tokenizer.json", lambda text: text + b" "),
        ("config.json", lambda text: text + b" "),
        ("model.safetensors", lambda text: text[:8] + text[8:].replace(b"F32", b"I32", 1)),
        ("model.safetensors", lambda text: text[: -len(text) // 3] + bytes(b ^ 1 for b in text[-len(text) // 3 :])),
    ):
        content = (model / name).read_bytes()
        (model / name).write_bytes(change(content))
        with pytest.raises(JobError, match=f"{name} is another one than when the job began"):
            BatchJob.open(job.directory.root)
        (model / name).write_bytes(content)
    (model / "generation_config.json").write_text('{"temperature": 0.5}')
    with pytest.raises(JobError, match=r"generation_config\.json is another one"):
        BatchJob.open(job.directory.root)


def test_a_manifest_that_was_touched_is_refused(case: BatchCase) -> None:
    job = case.begin(id_rows(7))
    path = job.directory.manifest
    text = path.read_text()
    values = json.loads(text)
    for change, words in (
        ({"seed": 5}, "changed by hand"),
        ({"deepinfer": "9.9"}, "written by deepinfer '9.9'"),
        ({"format_version": 2}, "written by deepinfer"),
    ):
        path.write_text(json.dumps({**values, **change}))
        with pytest.raises(JobError, match=words):
            BatchJob.open(job.directory.root)
    path.write_text(text[:200])
    with pytest.raises(JobError, match="not valid JSON"):
        BatchJob.open(job.directory.root)
    path.unlink()
    with pytest.raises(JobError, match="holds no job"):
        BatchJob.open(job.directory.root)


def test_an_input_may_move_with_its_path_in_the_manifest(case: BatchCase) -> None:
    job = case.begin(id_rows(7))
    moved = (case.root / "in.jsonl").rename(case.root / "elsewhere.jsonl")
    values = json.loads(job.directory.manifest.read_text())
    values["where"]["input"] = str(moved)
    job.directory.manifest.write_text(json.dumps(values))
    assert BatchJob.open(job.directory.root).manifest.digest == job.manifest.digest


def test_wrong_requests_leave_no_job(case: BatchCase) -> None:
    for request in (
        {"seed": -1},
        {"range_rows": 0},
        {"range_rows": 50_001},
        {"max_row_bytes": 0},
        {"sampling": {"temperature": -1}},
        {"engine": {"max_model_len": 513}},
        {"engine": {"model": "/nowhere/at/all"}},
    ):
        with pytest.raises(DeepInferError):
            case.begin(id_rows(2), **request)
    for request, words in (
        ({"chat": {"thinkings": True}}, "did you mean 'thinking'"),
        ({"sampling": {"top_kk": 1}}, "did you mean 'top_k'"),
        ({"engine": {"numericss": "fp32"}}, "did you mean 'numerics'"),
    ):
        with pytest.raises(JobError, match=words):
            case.begin(id_rows(2), **request)
    assert not (case.root / "job" / "manifest.json").exists()


def test_directories_of_others_are_left_alone(case: BatchCase) -> None:
    (case.root / "job").mkdir()
    stranger = case.root / "job" / "thesis.txt"
    stranger.write_text("mine")
    with pytest.raises(JobError, match=r"not empty \('thesis\.txt'\)"):
        case.begin(id_rows(2))
    assert [path.name for path in (case.root / "job").iterdir()] == ["thesis.txt"]


def test_a_beginning_that_was_killed_is_repeated(case: BatchCase) -> None:
    job = case.begin(id_rows(7))
    job.directory.manifest.unlink()
    job.directory.index.write_bytes(b"half of it")
    (job.directory.root / "rows.idx.123.tmp").write_bytes(b"left over")
    again = case.begin(id_rows(7))
    assert again.manifest == job.manifest
    (job.directory.root / "results.jsonl.123.tmp").write_bytes(b"left over")
    assert run_job(again).results is not None
    assert not list(job.directory.root.rglob("*.tmp"))


def test_the_number_of_ranges_follows_the_number_of_rows(case: BatchCase) -> None:
    path = write_lines(case.root / "in.jsonl", id_rows(2000))
    assert case.begin_file(path, range_rows=None).manifest.range_rows == 32
    path = write_lines(case.root / "few.jsonl", id_rows(5))
    assert case.begin_file(path, "few", range_rows=None).manifest.num_ranges == 1
