"""Checkpoints that tests in several folders use; each is written once per session."""

import pytest
import torch

from deepinfer.checkpoint.writer import write_random_checkpoint
from tests.support.table_model import TableModels
from tests.support.tiny_config import tiny_config


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """The suite runs on machines that others use as well; a test that is about threads sets their number itself."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def table_models(tmp_path_factory):
    """T-TAB: checkpoints with known logits, by table."""
    return TableModels(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="session")
def random_model(tmp_path_factory):
    """T-RND: directory of a small random checkpoint in which every limit bites within 70 tokens."""
    path = tmp_path_factory.mktemp("random")
    write_random_checkpoint(tiny_config(), path, seed=3)
    return path
