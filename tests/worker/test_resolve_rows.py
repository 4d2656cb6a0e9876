"""Rows of linked plans, made on the device: what a plain reading of csrc/core/resolve_plan.hpp gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from deepinfer.core.decode_fields import DecodeFields
from deepinfer.worker.decode_upload import DecodeUpload
from deepinfer.worker.eager_calls import EagerCalls
from tests.worker.decode_chains import SIZES, Resolver, check_chain, plan_of

CPU = torch.device("cpu")


@pytest.mark.parametrize("seed", range(60))
def test_linked_plans(seed: int) -> None:
    check_chain(seed, Resolver(CPU, EagerCalls()), num_links=4)


def test_a_running_transfer_is_not_overwritten() -> None:
    """Two buffers in turn: what is filled is never what was sent last."""
    rng, upload = np.random.default_rng(0), DecodeUpload(SIZES, DecodeFields.allocate(SIZES, CPU))
    first, second = (buffer.fields.words for buffer in upload._buffers)
    upload.send(plan_of(rng, [5], [0]))
    kept = first.clone()
    upload.send(plan_of(rng, [9, 4], [2, 1]))
    assert torch.equal(first, kept) and not torch.equal(second, first)
