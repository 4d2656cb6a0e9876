"""The index: ids, places, duplicates, bounded memory."""

import json
from pathlib import Path

import numpy as np
import pytest

from deepinfer.batch.column_names import ColumnNames
from deepinfer.batch.duplicate_ids import refuse_duplicates
from deepinfer.batch.plain_rows import PlainRows
from deepinfer.batch.row_index import RowIndex, id_hash
from deepinfer.batch.row_reader import RowReader
from deepinfer.batch.text_lines import TextLines
from deepinfer.errors import JobError
from tests.support.batch_case import write_lines

PARSER = PlainRows(ColumnNames())


def build(tmp_path: Path, rows: list[object]) -> tuple[RowIndex, TextLines]:
    path = write_lines(tmp_path / "in.jsonl", rows)
    source = TextLines(str(path), "none", 200)
    return RowIndex.build(tmp_path / "rows.idx", source, PARSER), source


def test_sixteen_bytes_a_row_lead_to_every_row(tmp_path: Path) -> None:
    rows: list[object] = [{"custom_id": f"r{i}", "prompt": "x" * i} for i in range(9)]
    rows += [
        "{broken",
        {"prompt": "without an id"},
        {"custom_id": 77, "prompt": "a number"},
        {"custom_id": [], "prompt": "a"},
    ]
    index, source = build(tmp_path, rows)
    assert (tmp_path / "rows.idx").stat().st_size == 16 * len(rows) == 16 * len(index)
    reader = RowReader(source, PARSER, index)
    ids = [row.custom_id for row in reader.rows(range(13))]
    assert ids == [*(f"r{i}" for i in range(9)), "row-9", "row-10", "77", "row-12"]
    assert [index.id_of(number, source, PARSER) for number in range(13)] == ids
    assert reader.find("r4").number == 4 and reader.find("9").number == 9 and reader.find("77").number == 11
    for name in ("r44", "13", "-1"):
        with pytest.raises(JobError, match="no row has the id"):
            reader.find(name)


def test_duplicate_ids_are_refused_with_both_rows(tmp_path: Path) -> None:
    rows = [{"custom_id": f"r{i}", "prompt": "a"} for i in range(50)]
    rows[41]["custom_id"] = "r7"
    with pytest.raises(JobError, match=r"rows 7 and 41 .* the same id 'r7'.*nothing was run"):
        build(tmp_path, rows)
    with pytest.raises(JobError, match="rows 1 and 2 .* the same id '5'"):
        build(tmp_path, [{"prompt": "a"}, {"custom_id": 5, "prompt": "a"}, {"custom_id": "5", "prompt": "a"}])
    build(tmp_path, [{"custom_id": "a", "prompt": "same"}, {"custom_id": "b", "prompt": "same"}])


def test_equal_hashes_of_different_ids_are_no_duplicates() -> None:
    hashes = np.array([3, 9, 3, 3, 9], np.uint64)
    names = ["a", "b", "c", "d", "e"]
    refuse_duplicates(hashes, names.__getitem__)
    names[3] = "a"  # not next to row 0 in the order of hashes
    with pytest.raises(JobError, match="rows 0 and 3"):
        refuse_duplicates(hashes, names.__getitem__)


@pytest.mark.parametrize("part_rows", [1, 7, 1000])
def test_duplicates_are_found_part_by_part(part_rows: int) -> None:
    names = [f"r{i}" for i in range(100)]
    hashes = np.array([id_hash(name) for name in names], np.uint64)
    refuse_duplicates(hashes, names.__getitem__, part_rows)
    for first, second in ((0, 99), (50, 51)):
        twice = list(names)
        twice[second] = twice[first]
        hashes = np.array([id_hash(name) for name in twice], np.uint64)
        with pytest.raises(JobError, match=f"rows {first} and {second} "):
            refuse_duplicates(hashes, twice.__getitem__, part_rows)


def test_inputs_without_a_row_or_a_prompt_are_refused(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="no rows"):
        build(tmp_path, ["", "  "])
    with pytest.raises(JobError, match="none of the 2 rows has a column 'prompt' or 'messages'"):
        build(tmp_path, [{"text": "a"}, {"text": "b"}])
    index, _ = build(tmp_path, [{"text": "a"}, {"prompt": "b"}])
    assert len(index) == 2


def test_a_damaged_index_is_noticed(tmp_path: Path) -> None:
    build(tmp_path, [{"prompt": "a"}, {"prompt": "b"}])
    with pytest.raises(JobError, match=r"rows\.idx: missing or not 48 bytes"):
        RowIndex(tmp_path / "rows.idx", 3)


def test_windows_are_bounded_by_bytes(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps({"prompt": "x" * 3_000_000}) + "\n" for _ in range(5)))
    source = TextLines(str(path), "none", 2**24)
    reader = RowReader(source, PARSER, RowIndex.build(tmp_path / "rows.idx", source, PARSER))
    assert [[row.number for row in window] for window in reader.windows(range(5))] == [[0, 1], [2, 3], [4]]
    assert list(reader.windows(range(0))) == []
