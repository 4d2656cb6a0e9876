"""Worlds of ranks that live as long as the tests."""

import pytest

from tests.distributed.rank_world import RankWorld


@pytest.fixture(scope="session")
def world2():
    with RankWorld(2) as world:
        yield world


@pytest.fixture(scope="session")
def world4():
    with RankWorld(4) as world:
        yield world
