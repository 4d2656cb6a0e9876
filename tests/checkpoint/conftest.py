"""A random checkpoint of three shards, written once and copied for tests that damage it."""

import json
import shutil

import pytest

from deepinfer.checkpoint.shard_index import INDEX_NAME
from deepinfer.checkpoint.writer import write_random_checkpoint
from tests.support.tiny_config import tiny_config


@pytest.fixture(scope="session")
def pristine(tmp_path_factory):
    """Directory of an intact checkpoint; never written to."""
    path = tmp_path_factory.mktemp("checkpoint")
    write_random_checkpoint(tiny_config(), path, seed=5, shards=3)
    return path


@pytest.fixture
def damaged(pristine, tmp_path):
    """A private copy."""
    return shutil.copytree(pristine, tmp_path / "copy")


@pytest.fixture
def weight_map(pristine):
    return json.loads((pristine / INDEX_NAME).read_text(encoding="utf-8"))["weight_map"]
