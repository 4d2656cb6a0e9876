"""Part files: append-only, cut back to what is whole, never guessed."""

import os
from pathlib import Path

import pytest

from deepinfer.batch.part_contents import PartContents
from deepinfer.batch.part_file import PartFile
from deepinfer.batch.part_record import PartRecord
from deepinfer.errors import JobWriteError

RECORDS = [
    PartRecord(row, f"{row:016x}", "bad" if row == 2 else None, b'{"text":"%d","error":null}' % row) for row in range(4)
]


def write(path: Path, records: list[PartRecord]) -> bytes:
    part = PartFile(path)
    part.append(records)
    part.close()
    return path.read_bytes()


def test_records_read_back(tmp_path: Path) -> None:
    content = write(tmp_path / "p", RECORDS)
    assert [PartRecord.decode(line) for line in content.splitlines(keepends=True)] == RECORDS
    contents = PartContents.read(tmp_path / "p")
    assert sorted(contents.entries) == [0, 1, 2, 3] and not contents.is_damaged
    assert [entry.error for entry in contents.entries.values()] == [None, None, "bad", None]
    assert contents.num_good_bytes == len(content)
    assert PartContents.read(tmp_path / "none").entries == {}


def test_every_possible_cut_leaves_the_whole_lines(tmp_path: Path) -> None:
    content = write(tmp_path / "p", RECORDS[:2])
    ends = [i + 1 for i, byte in enumerate(content) if byte == 10]
    for cut in range(len(content)):
        (tmp_path / "p").write_bytes(content[:cut])
        num_whole = sum(end <= cut for end in ends)
        contents = PartContents.read(tmp_path / "p")
        assert len(contents.entries) == num_whole and contents.is_damaged == (cut not in (0, *ends))
    (tmp_path / "p").write_bytes(content[: ends[0] + 9])
    assert write(tmp_path / "p", RECORDS[1:2]) == content  # the half line is gone, and the rest appended


@pytest.mark.parametrize("place", [3, 20, 60, 100])
def test_a_changed_byte_ends_the_part_there(tmp_path: Path, place: int) -> None:
    content = bytearray(write(tmp_path / "p", RECORDS))
    content[place] ^= 1
    (tmp_path / "p").write_bytes(content)
    contents = PartContents.read(tmp_path / "p")
    assert contents.is_damaged and contents.num_good_bytes <= place
    assert len(contents.entries) == bytes(content[: contents.num_good_bytes]).count(b"\n")


def test_zeros_behind_a_power_cut_are_cut_off(tmp_path: Path) -> None:
    content = write(tmp_path / "p", RECORDS[:2])
    (tmp_path / "p").write_bytes(content + bytes(500))
    assert write(tmp_path / "p", RECORDS[2:]).startswith(content)
    assert sorted(PartContents.read(tmp_path / "p").entries) == [0, 1, 2, 3]


def test_a_note_takes_a_result_back_and_a_later_one_counts(tmp_path: Path) -> None:
    write(tmp_path / "p", [*RECORDS, PartRecord(2, "k", None, None)])
    assert sorted(PartContents.read(tmp_path / "p").entries) == [0, 1, 3]
    write(tmp_path / "p", [PartRecord(2, "k", None, b'{"text":"better"}')])
    contents = PartContents.read(tmp_path / "p")
    assert contents.entries[2].error is None and contents.num_attempts == {0: 1, 1: 1, 2: 2, 3: 1}


def test_a_full_disk_leaves_whole_lines_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = write(tmp_path / "p", RECORDS[:2])
    part, real, room = PartFile(tmp_path / "p"), os.write, [30]

    def write_a_little(handle: int, data: bytes) -> int:
        if not room:
            raise OSError(28, "No space left on device")
        return real(handle, data[: room.pop()])

    monkeypatch.setattr("deepinfer.batch.part_file.os.write", write_a_little)
    with pytest.raises(JobWriteError, match=r"cannot be written \(No space left on device\)"):
        part.append(RECORDS[2:])
    assert (tmp_path / "p").read_bytes() == content
    monkeypatch.undo()
    part.append(RECORDS[2:])
    part.close()
    assert sorted(PartContents.read(tmp_path / "p").entries) == [0, 1, 2, 3]


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(JobWriteError, match="no_such_folder"):
        PartFile(tmp_path / "no_such_folder" / "p")
