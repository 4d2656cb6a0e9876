"""Claims: one living holder a range, and nothing left behind by dead ones."""

import json
import os
import signal
from pathlib import Path

from deepinfer.batch.claim import Claim
from deepinfer.batch.job_directory import JobDirectory
from deepinfer.batch.range_claims import RangeClaims


def directory(tmp_path: Path) -> JobDirectory:
    names = JobDirectory(tmp_path / "job")
    names.prepare()
    return names


def test_each_range_has_one_holder(tmp_path: Path) -> None:
    names = directory(tmp_path)
    first, second = RangeClaims(names, 3, "a"), RangeClaims(names, 3, "b")
    held = [first.take(), second.take(), first.take()]
    assert [item.number for item in held if item is not None] == [0, 1, 2]
    assert first.take() is None and second.take() is None
    assert json.loads(names.claim("000001").read_text())["worker"] == "b"
    held[0].claim.release()
    again = second.take()
    assert again is not None and again.number == 0
    names.done(0).touch()
    again.claim.release()
    assert first.take() is None and not first.are_all_done()
    names.done(1).touch()
    names.done(2).touch()
    assert first.are_all_done()
    names.done(1).unlink()
    first.forget(1)
    assert not first.are_all_done()


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    path = directory(tmp_path).claim("000000")
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        Claim.take(path, "child")
        os.write(tell, b"x")
        signal.pause()
    os.read(ready, 1)
    assert Claim.is_held(path) and Claim.take(path, "parent") is None
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert not Claim.is_held(path)
    claim = Claim.take(path, "parent")
    assert claim is not None
    claim.release()
    assert not Claim.is_held(path) and not Claim.is_held(path.with_name("never.lock"))
