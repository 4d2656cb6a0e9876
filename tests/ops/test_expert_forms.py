"""Which form of the experts' kernels a step of many rows takes, against times measured on one H200."""

import pytest

pytest.importorskip("tilelang")

from tilelang_ops.moe.few_experts import takes_few
from tilelang_ops.moe.stream_experts import StreamForm, stream_form, stream_specs
from tilelang_ops.moe.stream_shape import StreamShape

EXPERTS, PICKS, WIDTH, HIDDEN = 384, 6, 5120, 2304
FEW, MIDDLE = "few", (64, 80)
# Microseconds of a layer by rows of the step and form, experts chosen evenly (doc/performance.md).
MEASURED = {
    96: {FEW: 2035, (8,): 1993},
    128: {FEW: 2313, (8,): 2300},
    256: {FEW: 2847, (8,): 2818, (24,): 2879},
    512: {(8,): 4223, (24,): 3059},
    1024: {(24,): 3447, (32,): 3457, (48,): 3627},
    1536: {(32,): 3831, (48,): 3842, MIDDLE: 4051},
    2048: {(48,): 3997, MIDDLE: 4149},
    3072: {(48,): 5888, MIDDLE: 4475, (96,): 5262},
    4096: {MIDDLE: 5041, (96,): 5388, (112,): 6134, (96, 144): 5801},
    5120: {MIDDLE: 6935, (96,): 5814, (112,): 6326, (96, 144): 6127},
    6144: {MIDDLE: 8695, (112,): 6744, (96, 144): 7333},
    8192: {MIDDLE: 9706, (112,): 11685, (144,): 7852, (152,): 7756, (96, 144): 8168},
}
MOST = {MIDDLE: 12339, (112,): 12933, (96, 144): 11921}  # of 10,240 rows, more than a tile has an expert


class Experts:
    num_experts, dim, hidden_dim = EXPERTS, WIDTH, HIDDEN


def form_of(num_rows: int) -> object:
    picks = num_rows * PICKS
    return FEW if takes_few(picks, Experts()) else stream_form(picks, EXPERTS).sizes


def told(form: StreamForm, num_rows: int) -> float:
    """Microseconds: the routed experts' expected cost, the shared one's tiles, and 0.1 a row."""
    routed = form.expected_cost(num_rows * PICKS / EXPERTS) * EXPERTS
    return routed + -(-num_rows // form.sizes[-1]) * form.costs[-1] + 0.1 * num_rows


@pytest.mark.parametrize("num_rows", MEASURED)
def test_the_form_is_about_the_best_that_was_measured(num_rows: int) -> None:
    times = MEASURED[num_rows]
    assert times[form_of(num_rows)] <= 1.03 * min(times.values()), f"{num_rows} rows: {form_of(num_rows)} of {times}"


def test_costs_tell_the_measured_times() -> None:
    """Within 6 %, from four rows an expert on: with fewer, some experts have none."""
    for num_rows, times in {**MEASURED, 10240: MOST}.items():
        form = stream_form(num_rows * PICKS, EXPERTS)
        if form.sizes in times and num_rows * PICKS >= 4 * EXPERTS:
            assert told(form, num_rows) == pytest.approx(times[form.sizes], rel=0.06), f"{num_rows} rows, {form.sizes}"


def test_experts_of_more_rows_than_a_tile() -> None:
    """10,240 rows: two tiles an expert, nearly full, cost about as little as any form that was measured, or less."""
    form = stream_form(10240 * PICKS, EXPERTS)
    time = MOST.get(form.sizes, told(form, 10240))
    assert time <= 1.03 * min(MOST.values()), f"{form.sizes}: {time:.0f} us"


def test_a_form_follows_the_mean_alone() -> None:
    sizes = {stream_form(count, 384) for count in range(0, 1 << 16, 64)}
    assert sizes == {stream_form(count * 3, 384 * 3) for count in range(0, 1 << 16, 64)}
    specs = {spec.statics["sizes"] for spec in stream_specs(WIDTH, HIDDEN)}
    assert {form.sizes for form in sizes} == specs, "a form that no step takes, or one that is not precompiled"


@pytest.mark.parametrize("widths", [(5120, 2304), (256, 192), (160, 96)])
def test_blocks_fit_into_a_multiprocessor(widths: tuple[int, int]) -> None:
    for spec in stream_specs(*widths):
        form = {name: spec.statics[name] for name in ("sizes", "stages", "words", "registers")}
        for stacks in (1, 2):
            shape = StreamShape(*widths, stacks, **form)
            assert shape.shared_bytes <= 227 << 10, f"{form}"
            copying, multiplying = shape.registers
            assert shape.copiers * copying + shape.consumers * multiplying <= 1 << 16, f"{form}"
