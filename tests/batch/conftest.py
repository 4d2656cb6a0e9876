"""A place for a batch job."""

from pathlib import Path

import pytest

from tests.support.batch_case import BatchCase


@pytest.fixture
def case(tmp_path: Path, random_model: Path) -> BatchCase:
    """Jobs over the small random checkpoint, whose weights are never loaded."""
    return BatchCase(tmp_path, random_model)
