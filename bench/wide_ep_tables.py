"""Tables for doc/wide_ep.md from a report of `bench/wide_ep.py`:

    python bench/wide_ep_tables.py REPORT.json [--tests MULTIGPU.json]

MULTIGPU.json: of `tests/gpu/run_all.py --multigpu`. Sections that the report lacks are left out.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Rows = list[dict[str, Any]]


def table(headings: Iterable[str], lines: Iterable[Iterable[str]]) -> None:
    headings = list(headings)
    print("|".join(("", *(f" {heading} " for heading in headings), "")))
    print("|" + "---|" * len(headings))
    for line in lines:
        print("|".join(("", *(f" {cell} " for cell in line), "")))
    print()


def number(value: float | None, digits: int = 0) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def size(num_bytes: float) -> str:
    unit = next(unit for unit in (2**20, 2**10, 1) if num_bytes >= unit)
    return f"{num_bytes / unit:,.3g} {'MiB' if unit == 2**20 else 'KiB' if unit == 2**10 else 'B'}"


def links(rows: Rows) -> None:
    names = ("all_to_all_us", "all_to_all_gb_s", "ring_us", "ring_gb_s")
    headings = ("bytes of a GPU", "all-to-all, us", "GB/s", "send around, us", "GB/s")
    table(headings, ([size(row["bytes"]), *(number(row[name], 1) for name in names)] for row in rows))


def votes(rows: Rows) -> None:
    cells = ([number(row.get(name)) for name in ("board_us", "gloo_us")] for row in rows)
    table(("six numbers over shared memory, us", "over gloo, us"), cells)


def decode_exchange(rows: Rows) -> None:
    headings = ("rows of a GPU", "exchange, us", "its all-gather and all-to-all, us", "over", "sent by a GPU")
    table(
        headings,
        (
            [
                number(row["rows"]),
                number(row["static_us"]),
                number(row["static_floor_us"]),
                number(row["static_us"] / row["static_floor_us"], 2),
                size(row["static_bytes"]),
            ]
            for row in rows
        ),
    )


def exchange(rows: Rows) -> None:
    names = ("rows", "dispatch_us", "dispatch_floor_us", "combine_us", "combine_floor_us")
    headings = ("rows of a GPU", "dispatch, us", "its all-to-all, us", "combine, us", "its all-to-all, us")
    lines = []
    for row in rows:
        sent = size(row["dispatch_bytes"] + row["combine_bytes"])
        lines.append([*(number(row[name]) for name in names), sent])
    table((*headings, "sent by a GPU"), lines)


def decode(rows: Rows) -> None:
    headings = ("experts over", "sequences a GPU", "step, ms", "p90, ms", "tokens/s/user", "tokens/s/GPU")
    parts = ("device_ms", "outside_ms", "vote_ms")
    has_parts = any("device_ms" in row for row in rows)
    lines = []
    for row in rows:
        kinds = [name for key, name in (("lockstep", "lock steps"), ("plain", "plain")) if row.get(key)]
        over = ", ".join((str(row["experts_over"]), *kinds))
        cells = [over, number(row["batch"]), number(row["step_ms"], 2), number(row["p90_ms"], 2)]
        cells += [number(row["tokens_s_user"], 1), number(row["tokens_s_gpu"])]
        lines.append(cells + [number(row.get(name), 2) for name in parts if has_parts])
    table((*headings, *(("device, ms", "outside, ms", "votes, ms") if has_parts else ())), lines)


def experts(rows: Rows) -> None:
    lines = [[number(row[name]) for name in ("experts_over", "batch", "picked_us", "shared_us")] for row in rows]
    table(("experts over", "sequences a GPU", "picked experts, us", "shared one and sum, us"), lines)


def as_they_are(rows: Rows) -> None:
    """One line a row, whatever it has."""
    for row in rows:
        shown = {name: f"{value:.4g}" if isinstance(value, float) else str(value) for name, value in row.items()}
        print("* " + ", ".join(f"{name} {value}" for name, value in shown.items()))
    print()


SECTIONS: dict[str, Callable[[Rows], None]] = {
    "links": links,
    "votes": votes,
    "exchange of decode steps": decode_exchange,
    "exchange": exchange,
    "context": as_they_are,
    "engines": as_they_are,
    "decode": decode,
    "experts of a rank": experts,
    "shuffle": as_they_are,
    "overlap": as_they_are,
}


def tests(report: dict[str, Any]) -> None:
    """Files by what became of their cases."""
    lines = []
    for file in report["files"]:
        counts = Counter(case["outcome"] for case in file["tests"])
        cells = [number(counts[outcome]) for outcome in ("passed", "failed", "skipped")]
        lines.append([f"`{Path(file['file']).name}`", *cells, f"{file['seconds']:.0f} s"])
    table(("file", "passed", "failed", "not run", "time"), lines)


def main(words: argparse.Namespace) -> None:
    report = json.loads(words.report.read_text("utf-8"))
    about = ("date", "num_gpus", "card", "torch", "nccl", "model", "num_layers")
    print(", ".join(f"{name} {report[name]}" for name in about if name in report), end="\n\n")
    for name, show in SECTIONS.items():
        rows = report.get(name, [])
        failed = [row for row in rows if "failed" in row]
        if rows:
            print(f"**{name}**", *(row["failed"] for row in failed), end="\n\n", sep="\n\n")
            show([row for row in rows if "failed" not in row])
    if words.tests is not None:
        tests(json.loads(words.tests.read_text("utf-8")))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path)
    parser.add_argument("--tests", type=Path)
    main(parser.parse_args())
