"""A job's figures in Prometheus' text format, for a node exporter's textfile collector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from deepinfer.batch.atomic_file import write_atomically
from deepinfer.batch.job_report import JobReport

_COUNTERS = {
    "num_prompt_tokens": ("prompt_tokens", "Prompt tokens of rows that ended."),
    "num_generated_tokens": ("generated_tokens", "New tokens of rows that ended."),
    "prefill_seconds": ("prefill_seconds", "Seconds inside prefill steps."),
    "decode_seconds": ("decode_seconds", "Seconds inside decode steps."),
    "num_drafts_verified": ("drafts_verified", "Drafts that were verified."),
    "num_drafts_accepted": ("drafts_accepted", "Drafts that became tokens."),
    "num_preemptions": ("preemptions", "Times a row lost its cache."),
    "worker_seconds": ("worker_seconds", "Seconds of all runs of workers."),
}


def write_prometheus(path: Path, job: str, report: JobReport, num_ended: int) -> None:
    """Write the file, whole or not at all.

    Args:
        path: its name ends with .prom.
        job: value of the label "batch_job".
        report: figures so far.
        num_ended: rows that have a result.

    Raises JobWriteError.
    """
    write_atomically(path, "".join(_lines(job, report, num_ended)).encode("utf-8"))


def _lines(job: str, report: JobReport, num_ended: int) -> Iterator[str]:
    label = f'batch_job="{_escaped(job)}"'  # "job" is the name of the scrape
    yield from _metric("rows", "gauge", "Rows of the input.", {label: report.num_rows})
    yield from _metric("rows_ended", "gauge", "Rows that have a result.", {label: num_ended})
    failed = {f'{label},code="{_escaped(code)}"': number for code, number in report.failures.items()}
    yield from _metric("rows_failed_total", "counter", "Rows that failed, by kind.", failed)
    for field, (name, text) in _COUNTERS.items():
        yield from _metric(f"{name}_total", "counter", text, {label: getattr(report, field)})


def _metric(name: str, kind: str, text: str, values: Mapping[str, float]) -> Iterator[str]:
    yield f"# HELP deepinfer_batch_{name} {text}\n# TYPE deepinfer_batch_{name} {kind}\n"
    for labels, value in values.items():
        yield f"deepinfer_batch_{name}{{{labels}}} {value}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
