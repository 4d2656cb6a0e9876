"""Table engines run synchronously and overlapped in every module that uses the fixture."""

import pytest

from tests.support.table_engine import TableEngine


@pytest.fixture(params=[False, True], ids=["sync", "overlapped"])
def overlaps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether table engines overlap their steps."""
    monkeypatch.setattr(TableEngine, "overlaps", request.param)
    return request.param
