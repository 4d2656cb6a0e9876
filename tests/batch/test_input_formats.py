"""Input files: formats, compression, damage; all give the same rows."""

import array
import gzip
import itertools
import json
import sys
from pathlib import Path

import pyarrow
import pytest
import zstandard
from pyarrow import parquet

from deepinfer.batch.input_file import InputFile
from deepinfer.batch.input_line import InputLine
from deepinfer.errors import JobError, UnsupportedFeatureError
from tests.support.batch_case import BatchCase, id_rows, results, run_job, write_lines


def lines_of(path: Path, format_name: str = "auto", limit: int = 1000, place: int = 0) -> list[InputLine]:
    source = InputFile.examine(path, format_name, limit).open(path)
    found = list(source.lines_from(place))
    source.close()
    return found


def test_places_lead_back_to_the_rows_of_every_format(tmp_path: Path) -> None:
    rows = [{"custom_id": f"r{i}", "prompt": "x" * i} for i in range(40)]
    plain = write_lines(tmp_path / "a.jsonl", rows)
    text = plain.read_bytes()
    files = [plain, tmp_path / "b", tmp_path / "c", tmp_path / "d"]
    files[1].write_bytes(gzip.compress(text[:700]) + gzip.compress(text[700:]))  # two members
    frame = zstandard.ZstdCompressor().compress
    files[2].write_bytes(frame(text[:700]) + frame(text[700:]))
    parquet.write_table(pyarrow.Table.from_pylist(rows), files[3], row_group_size=7)
    kinds = [
        (InputFile.examine(path, "auto", 99).format, InputFile.examine(path, "auto", 99).compression) for path in files
    ]
    assert kinds == [("jsonl", "none"), ("jsonl", "gz"), ("jsonl", "zst"), ("parquet", "none")]
    for path in files:
        source = InputFile.examine(path, "auto", 1000).open(path)
        lines = list(source.lines_from(0))
        assert [json.loads(line.text or b"") for line in lines] == rows
        for number in (39, 3, 20, 21, 0):  # forward and back
            assert json.loads(next(source.lines_from(lines[number].place)).text or b"") == rows[number]
        source.close()


def test_blank_lines_byte_order_mark_and_the_missing_last_line_end(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(b'\xef\xbb\xbf{"a":1}\r\n\n  \r\n{"a":2}\n{"a":3}')
    lines = lines_of(path)
    assert [json.loads(line.text or b"")["a"] for line in lines] == [1, 2, 3]
    assert lines_of(path, place=lines[2].place) == lines[2:]


def test_a_huge_row_is_passed_over_without_being_held(tmp_path: Path) -> None:
    path = tmp_path / "in"
    huge = b'{"prompt":"' + b"x" * 3_000_000 + b'"}\n'
    path.write_bytes(b'{"a":1}\n' + huge + b'{"a":2}\n' + huge[:-1])
    lines = lines_of(path)
    assert [line.text is None for line in lines] == [False, True, False, True]
    assert lines[1].num_bytes == len(huge) and lines[2].place == 8 + len(huge)
    exact = b'{"a":"' + b"x" * 92 + b'"}'
    path.write_bytes(exact + b"\n" + exact)
    assert [line.text is None for line in lines_of(path, limit=100)] == [False, False]
    assert [line.text is None for line in lines_of(path, limit=99)] == [True, True]


@pytest.mark.parametrize("cut", [4, 3000])
def test_cut_off_compressed_data_is_refused(tmp_path: Path, cut: int) -> None:
    text = b"".join(b'{"prompt":"%d"}\n' % (i * i) for i in range(5000))
    for name, packed in (("gz", gzip.compress(text)), ("zst", zstandard.ZstdCompressor().compress(text))):
        path = tmp_path / name
        path.write_bytes(packed[:-cut])
        with pytest.raises(JobError, match="cut off or damaged"):
            lines_of(path)


def test_requests_of_the_openai_format_are_told_from_other_rows(tmp_path: Path) -> None:
    for row, kind in (
        ({"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {}}, "openai"),
        ({"url": "/v1/embeddings", "body": {}}, "openai"),
        ({"method": "POST", "body": {}}, "openai"),
        ({"url": "https://a.org/v1/", "body": "a page", "prompt": "a"}, "jsonl"),
        ({"url": 5, "method": None, "body": {}}, "jsonl"),
        ({"url": "/v1/completions", "prompt": "a"}, "jsonl"),
    ):
        path = write_lines(tmp_path / "in", ["{broken", row])
        assert InputFile.examine(path, "auto", 1000).format == kind, row


def test_an_input_that_goes_away_is_named(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in", [{"prompt": "a"}])
    source = InputFile.examine(path, "auto", 1000).open(path)
    path.unlink()
    with pytest.raises(JobError, match=r"in: cannot be read any more \(No such file"):
        next(source.lines_from(0))


def test_what_is_no_input(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="no such file"):
        lines_of(tmp_path / "nothing")
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(JobError, match="is empty"):
        lines_of(empty)
    broken = tmp_path / "broken"
    broken.write_bytes(b"PAR1 and then nothing that a table has")
    with pytest.raises(JobError, match="not a whole Parquet file"):
        lines_of(broken)
    plain = write_lines(tmp_path / "plain", [{"prompt": "a"}])
    with pytest.raises(JobError, match="no Parquet file"):
        lines_of(plain, "parquet")
    with pytest.raises(JobError, match="expected one of auto, jsonl"):
        lines_of(plain, "csv")
    with pytest.raises(JobError, match="max_row_bytes = 0"):
        lines_of(plain, limit=0)


@pytest.mark.parametrize(("library", "content"), [("pyarrow", b"PAR1"), ("zstandard", b"\x28\xb5\x2f\xfd")])
def test_a_missing_library_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, content: bytes
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    (tmp_path / "in").write_bytes(content + b"rest")
    with pytest.raises(UnsupportedFeatureError, match=r"pip install 'deepinfer\[batch\]'"):
        lines_of(tmp_path / "in")


def test_every_format_gives_the_same_results(case: BatchCase) -> None:
    rows = id_rows(23)
    job = case.begin(rows, "plain")
    run_job(job)
    text = (case.root / "in.jsonl").read_bytes()
    (case.root / "in.gz").write_bytes(gzip.compress(text))
    (case.root / "in.zst").write_bytes(zstandard.ZstdCompressor().compress(text))
    parquet.write_table(pyarrow.Table.from_pylist(rows), case.root / "in.parquet", row_group_size=4)
    for name in ("gz", "zst", "parquet"):
        other = case.begin_file(case.root / f"in.{name}", name)
        run_job(other)
        assert results(other) == results(job)


def test_parquet_values_that_json_lacks(case: BatchCase) -> None:
    import datetime
    import decimal

    row = {
        "prompt": [5],
        "day": datetime.date(2026, 1, 2),
        "price": decimal.Decimal("1.50"),
        "raw": b"\x00\xff",
        "none": None,
    }
    parquet.write_table(pyarrow.Table.from_pylist([row]), case.root / "in.parquet")
    job = case.begin_file(case.root / "in.parquet")
    run_job(job)
    (found,) = results(job)
    assert (found["day"], found["price"], found["raw"], found["none"]) == ("2026-01-02", "1.50", "AP8=", None)


def test_parquet_rows_with_values_that_cannot_be_read_harm_no_other(case: BatchCase) -> None:
    offsets, texts = pyarrow.py_buffer(array.array("i", [0, 2, 3])), pyarrow.py_buffer(b"\xff\xfea")
    columns = {
        "prompt": [[5], [6]],
        "text": pyarrow.Array.from_buffers(pyarrow.string(), 2, [None, offsets, texts]),
        "when": pyarrow.array([1000, 2_000_000_000], pyarrow.timestamp("ns")),
        "took": pyarrow.array([1000, 2_000_000_000], pyarrow.duration("ns")),
    }
    parquet.write_table(pyarrow.table(columns), case.root / "in.parquet")
    job = case.begin_file(case.root / "in.parquet")
    run_job(job)
    bad, good = results(job)
    assert bad["error"]["code"] == "invalid_row" and "cannot be read ('utf-8' codec" in bad["error"]["message"]
    assert (good["text"], good["when"], good["took"], good["error"]) == ("a", "1970-01-01T00:00:02", "PT2S", None)


def test_ranges_of_one_parquet_group_are_read_in_one_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet.write_table(pyarrow.Table.from_pylist([{"i": i} for i in range(1000)]), tmp_path / "in")
    opened: list[dict[str, object]] = []
    iter_batches = parquet.ParquetFile.iter_batches

    def counted(*args: object, **options: object) -> object:
        opened.append(options)
        return iter_batches(*args, **options)

    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", counted)
    source = InputFile.examine(tmp_path / "in", "auto", 1000).open(tmp_path / "in")
    for places in (range(100), range(100, 350), range(600, 1000)):
        lines = itertools.islice(source.lines_from(places[0]), len(places))
        assert [json.loads(line.text or b"")["i"] for line in lines] == list(places)
    assert len(opened) == 1 and opened[0]["batch_size"] == 256
    assert next(source.lines_from(0)).place == 0 and len(opened) == 2
    source.close()
    rows = [{"text": f"{i}" * 3_000_000} for i in range(3)]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "large", use_dictionary=False)
    assert [line.place for line in lines_of(tmp_path / "large", limit=2**24)] == [0, 1, 2]
    assert opened[-1]["batch_size"] == 1  # a few MiB are held, not a group
