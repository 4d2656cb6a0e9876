"""A ladder of sizes, timed within a bound, becomes a curve for every size."""

import pytest

from deepinfer.profile.curve_timer import ladder, time_curve


class Machine:
    """Runs take what a rule says, on a clock of its own."""

    def __init__(self, ms_of):
        self.ms_of = ms_of
        self.seconds = 0.0
        self.sizes = []

    def run(self, size):
        ms = self.ms_of(size, self.sizes.count(size))
        self.sizes.append(size)
        self.seconds += ms / 1e3
        return ms

    def curve(self, largest, seconds):
        return dict(time_curve(self.run, largest, seconds, clock=lambda: self.seconds))


@pytest.mark.parametrize("largest", [1, 2, 3, 5, 24, 1536])
def test_ladder_ends_at_the_largest(largest):
    sizes = ladder(largest)
    assert sizes == sorted(set(sizes)) and sizes[0] == 1 and sizes[-1] == largest
    assert all(later <= 2 * earlier for earlier, later in zip(sizes, sizes[1:], strict=False))


def test_first_run_of_a_size_only_warms_up_and_slow_ones_do_not_count():
    machine = Machine(lambda size, before: (5.0 + size) * (100 if before == 0 else 3 if before == 1 else 1))
    curve = machine.curve(12, seconds=60)
    assert curve == pytest.approx({size: 5.0 + size for size in range(1, 13)})
    assert machine.sizes.count(8) == 6


def test_time_is_bounded_and_the_rest_extrapolated():
    machine = Machine(lambda size, before: 10.0 * size)
    curve = machine.curve(1536, seconds=2.0)
    assert machine.seconds < 3.0 and max(machine.sizes) < 200
    assert curve[1536] == pytest.approx(15360.0) and curve[7] == pytest.approx(70.0)
    slow = Machine(lambda size, before: 9000.0)
    assert slow.curve(64, seconds=0.1)[64] == pytest.approx(64 * 9000.0)  # one point: in proportion
    assert slow.sizes == [1, 1]


def test_curve_never_falls_and_has_the_sizes_of_a_schedule():
    machine = Machine(lambda size, before: 50.0 if size in (3, 16) else 10.0 + size)
    curve = machine.curve(100, seconds=60)
    assert list(curve)[:64] == list(range(1, 65)) and list(curve)[64:] == [72, 80, 88, 96, 100]
    assert all(early <= late for early, late in zip(curve.values(), list(curve.values())[1:], strict=False))
    assert curve[3] == pytest.approx(14.0)  # no slower than four rows


def test_padded_sizes_are_the_points_of_the_curve():
    """A step costs what its padding makes of it: only such sizes are timed, and the curve is a staircase over them."""
    padded = (1, 2, 4, 8, 16, 20)
    machine = Machine(lambda size, before: 10.0 + size)
    curve = dict(time_curve(machine.run, 18, 60, clock=lambda: machine.seconds, padded_sizes=padded))
    assert curve == pytest.approx({size: 10.0 + size for size in padded})
    assert sorted(set(machine.sizes)) == list(padded)
