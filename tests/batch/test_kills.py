"""Kill -9 at any moment: the bundled model's results are those of an uninterrupted run, bit for bit."""

import pytest

from deepinfer.batch.part_contents import PartContents
from tests.support.kill_case import KillCase

NUM_ROWS = 120


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> KillCase:
    return KillCase(tmp_path_factory.mktemp("kills"), NUM_ROWS, seed=7)


@pytest.fixture(scope="module")
def expected(case: KillCase) -> bytes:
    return case.finish(case.begin("whole"))


def test_case_42_three_kills_change_nothing(case: KillCase, expected: bytes) -> None:
    job = case.begin("killed")
    for share in (0.1, 0.4, 0.75):
        case.kill_on_the_way(job, share, [case.start(job)], 0)
        assert not job.directory.results.exists()
    case.finish(job)
    case.check(job, expected)


def test_case_42_two_workers_and_one_killed_give_the_same(case: KillCase, expected: bytes) -> None:
    job = case.begin("shared")
    children = [case.start(job), case.start(job)]
    case.kill_on_the_way(job, 0.3, children, 1)
    children[0].join()  # it takes over what the other one left
    assert children[0].exitcode == 0
    case.check(job, expected)


def test_sigterm_leaves_a_valid_state_and_says_so(case: KillCase, expected: bytes) -> None:
    job = case.begin("asked")
    child = case.start(job)
    case.wait_for(job, 0.3, child)
    child.terminate()
    child.join()
    assert child.exitcode == 4 and not job.directory.results.exists()
    assert not any(PartContents.read(path).is_damaged for path in job.directory.parts.glob("*.jsonl"))
    case.finish(job)
    case.check(job, expected)
