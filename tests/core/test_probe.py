"""Research hooks: nested replacements and names that the model does not have."""

import pytest

from deepinfer.core.probe import Probe
from deepinfer.errors import RequestError

POINT = "layers.0.attn"


def test_the_newest_replacement_counts_and_older_ones_come_back() -> None:
    probe = Probe([POINT])

    def plain(x: int) -> int:
        return x

    def outer(original: object, x: int) -> int:
        return original(x) + 10

    def inner(original: object, x: int) -> int:
        return original(x) + 100

    probe.replace(POINT, outer)
    probe.replace(POINT, inner)
    assert probe.call(POINT, plain, 1) == 101
    probe.restore(POINT, inner)
    assert probe.call(POINT, plain, 1) == 11
    probe.replace(POINT, inner)
    probe.restore(POINT, outer)  # not the newest one
    assert probe.call(POINT, plain, 1) == 101
    probe.restore(POINT, inner)
    assert probe.call(POINT, plain, 1) == 1


def test_an_unknown_point_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(RequestError, match=r"'layer\.0\.attn'.*did you mean 'layers\.0\.attn'") as caught:
        Probe([POINT, "layers.0.ffn"]).replace("layer.0.attn", lambda original, x: x)
    assert caught.value.code == "unknown_point"
