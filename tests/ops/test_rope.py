"""Rotary tables and rotation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from deepinfer.config.rope_scaling import RopeScaling
from deepinfer.ops import Ops, reference
from deepinfer.ops.reference.rope_table import rope_frequencies
from tests.ops.builders import normal
from tests.ops.tolerances import assert_close

YARN = RopeScaling(factor=16, beta_fast=32, beta_slow=1, original_max_position_embeddings=65536)


def test_published_yarn_frequencies():
    omega = rope_frequencies(160000, 64, YARN)
    want = {
        0: 1, 1: 0.687656045, 15: 0.00363553851, 16: 0.00226562493, 20: 0.000296977785, 24: 1.95312514e-05,
        25: 5.37231244e-06, 31: 5.6805294e-07,
    }  # fmt: skip
    assert {j: omega[j] for j in want} == {j: np.float32(value) for j, value in want.items()}


def test_plain_frequencies():
    omega = rope_frequencies(10000, 64, None)
    np.testing.assert_allclose(omega, 10000.0 ** (-2 * np.arange(32) / 64), rtol=1e-7)


def test_ramp_of_a_short_context_stays_in_range():
    scaling = RopeScaling(factor=4, beta_fast=32, beta_slow=1, original_max_position_embeddings=16)
    omega = rope_frequencies(160000, 16, scaling)
    plain = rope_frequencies(160000, 16, None)
    assert np.all((omega <= plain) & (omega >= plain / 4))


def test_table():
    cos, sin = reference.rope_table(10000, 8, None, 5)
    assert cos.shape == sin.shape == (5, 4) and cos.dtype == torch.float32
    angle = np.arange(5, dtype=np.float32)[:, None] * rope_frequencies(10000, 8, None)
    assert angle.dtype == np.float32
    assert cos.numpy().tolist() == np.cos(angle.astype(np.float64)).astype(np.float32).tolist()
    assert sin.numpy().tolist() == np.sin(angle.astype(np.float64)).astype(np.float32).tolist()
    assert reference.rope_table(10000, 8, YARN, 0)[0].shape == (0, 4)


@pytest.mark.parametrize("shape", [(0, 8), (3, 12), (3, 2, 8), (3, 2, 5, 20)])
@pytest.mark.parametrize("inverse", [False, True])
def test_rotation(ops: Ops, shape: tuple[int, ...], inverse: bool):
    x = normal(*shape)
    cos, sin = reference.rope_table(100, 8, None, 9)
    cos, sin = cos[: shape[0]], sin[: shape[0]]
    got = ops.apply_rope(x, cos, sin, inverse=inverse)
    pairs = torch.view_as_complex(x[..., -8:].double().reshape(*shape[:-1], 4, 2).contiguous())
    turn = torch.complex(cos.double(), -sin.double() if inverse else sin.double())
    turned = torch.view_as_real(pairs * turn.view(shape[0], *[1] * (len(shape) - 2), 4)).flatten(-2)
    assert torch.equal(got[..., :-8], x[..., :-8])
    assert_close(got[..., -8:], turned, "apply_rope")


def test_inverse_undoes_and_input_is_untouched(ops: Ops):
    x = normal(4, 3, 16)
    before = x.clone()
    cos, sin = reference.rope_table(100, 16, None, 4)
    back = ops.apply_rope(ops.apply_rope(x, cos, sin), cos, sin, inverse=True)
    assert torch.equal(x, before)
    torch.testing.assert_close(back, x)


def test_bf16_is_float32_rounded_once(ops: Ops):
    x = normal(4, 16, dtype=torch.bfloat16)
    cos, sin = reference.rope_table(100, 8, None, 4)
    got = ops.apply_rope(x, cos, sin)
    assert got.dtype == torch.bfloat16
    assert torch.equal(got, ops.apply_rope(x.float(), cos, sin).to(torch.bfloat16))


def test_a_million_positions():
    """Positions are exact in float32, and no piece of the table differs from a single position's formula."""
    cos, sin = reference.rope_table(160000, 4, YARN, 2**20)
    positions = np.array([0, 2**14 - 1, 2**14, 99_999, 2**20 - 1])
    angle = (positions.astype(np.float32)[:, None] * rope_frequencies(160000, 4, YARN)).astype(np.float64)
    assert cos[positions].tolist() == np.cos(angle).astype(np.float32).tolist()
    assert sin[positions].tolist() == np.sin(angle).astype(np.float32).tolist()
