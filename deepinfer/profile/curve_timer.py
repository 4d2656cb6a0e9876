"""Times steps of growing size within a bounded time and makes a cost curve of it."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Final

from deepinfer.config.cost_curves import Curve

_REPEATS: Final = 5
_DENSE: Final = 64  # up to here every size has a point of its own, then every eighth
_SPACING: Final = 8


def ladder(largest: int) -> list[int]:
    """Sizes to be measured: 1, 2, 3, 4, 6, 8, 12, 16, 24, ... and the largest."""
    sizes = {largest}
    power = 1
    while power < largest:
        sizes.update((power, power * 3 // 2))
        power *= 2
    return sorted(size for size in sizes if size <= largest)


def time_curve(
    run_ms: Callable[[int], float],
    largest: int,
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
    padded_sizes: Sequence[int] = (),
) -> Curve:
    """Cost of every size from 1 to `largest`.

    Args:
        run_ms: size -> milliseconds of one run.
        largest: last size of the curve.
        seconds: after about that long the rest of the ladder is extrapolated; the smallest size is always measured.
        clock: seconds, for the bound.
        padded_sizes: what sizes are padded to, ascending, the last one at least `largest`: a point of the curve each.
            Empty: they are not padded.

    A size is run once to warm up and then up to five times, less often where that would take more than its share of
    the time. A run can only be slower than it need be, never faster: the fastest counts, and a size costs at most what
    any larger one does. Sizes between two measured ones are interpolated.
    """
    sizes = ladder(largest)
    if padded_sizes:
        sizes = sorted({padded_sizes[bisect_left(padded_sizes, size)] for size in sizes})
    share = seconds / len(sizes)
    began = clock()
    measured: list[tuple[int, float]] = []
    for size in sizes:
        left = seconds - (clock() - began)
        if measured and _expected_seconds(measured, size) > left:
            break
        measured.append((size, _fastest_ms(run_ms, size, share, clock)))
    return filled(_rising(measured), padded_sizes or all_sizes(largest))


def _expected_seconds(measured: Sequence[tuple[int, float]], size: int) -> float:
    last, ms = measured[-1]
    return 2 * ms * size / last / 1e3  # two runs, if time grows with the size


def _fastest_ms(run_ms: Callable[[int], float], size: int, share: float, clock: Callable[[], float]) -> float:
    began = clock()
    run_ms(size)  # the first run of a size finds no memory and no cache ready for it
    samples = [run_ms(size)]
    while len(samples) < _REPEATS and clock() - began < share:
        samples.append(run_ms(size))
    return min(samples)


def _rising(measured: list[tuple[int, float]]) -> list[tuple[int, float]]:
    rising = list(measured)
    for i in reversed(range(len(rising) - 1)):
        rising[i] = (rising[i][0], min(rising[i][1], rising[i + 1][1]))
    return rising


def all_sizes(largest: int) -> list[int]:
    """Sizes that have a point of their own where steps are not padded."""
    return [size for size in range(1, largest + 1) if size <= _DENSE or size % _SPACING == 0 or size == largest]


def filled(points: Sequence[tuple[int, float]], sizes: Sequence[int]) -> Curve:
    """Points for all sizes that matter: straight lines between the given ones, and beyond the last the last line's
    slope (from nothing, if there is one point only).
    """
    curve: list[tuple[int, float]] = []
    segment = 0
    known = [(0, 0.0), *points] if len(points) == 1 else list(points)
    for size in sizes:
        while segment + 2 < len(known) and known[segment + 1][0] < size:
            segment += 1
        (low, low_ms), (high, high_ms) = known[segment], known[segment + 1]
        curve.append((size, round(low_ms + (high_ms - low_ms) * (size - low) / (high - low), 6)))
    return tuple(curve)
