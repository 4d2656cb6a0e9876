"""The long version of test_kills: 2,000 rows, twenty kills; three workers, one killed."""

from pathlib import Path

import pytest

from tests.support.kill_case import KillCase

NUM_ROWS, NUM_KILLS = 2000, 20

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_twenty_kills_then_three_workers(tmp_path: Path) -> None:
    case = KillCase(tmp_path, NUM_ROWS, seed=11)
    expected = case.finish(case.begin("whole"))
    job = case.begin("killed")
    for kill in range(NUM_KILLS):
        case.kill_on_the_way(job, (kill + 0.5) / (NUM_KILLS + 1), [case.start(job)], 0)
        assert not job.directory.results.exists()
    case.finish(job)
    case.check(job, expected)

    shared = case.begin("shared")
    children = [case.start(shared) for _ in range(3)]
    case.kill_on_the_way(shared, 0.4, children, 1)
    for place in (0, 2):
        children[place].join()
        assert children[place].exitcode == 0
    case.check(shared, expected)
