"""Calibration: error, bins, and temperatures that are found again; those that do not help are not taken."""

import numpy as np
import pytest

from deepinfer._C import Scheduler
from deepinfer.bench.temperature_fit import fit_temperatures
from deepinfer.engine.draft_calibration import DraftCalibration
from tests.core.fake_worker import make_config

NUM_FINE = 160


def collected(rng, wrong_by, number=20000):
    """Drafts whose true log-odds are the reported ones over `wrong_by`, one value a position."""
    shape = (len(wrong_by), NUM_FINE)
    counts, accepted, sums = np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape)
    for k, factor in enumerate(wrong_by):
        odds = rng.normal(1.0, 2.0, number)
        right = rng.random(number) < 1 / (1 + np.exp(-odds / factor))
        bins = np.clip(((odds + 10) * 8).astype(int), 0, NUM_FINE - 1)
        counts[k] = np.bincount(bins, minlength=NUM_FINE)
        accepted[k] = np.bincount(bins, right, NUM_FINE)
        sums[k] = np.bincount(bins, 1 / (1 + np.exp(-odds)), NUM_FINE)
    return DraftCalibration(counts, accepted, sums)


def test_temperatures_are_found_again():
    rng = np.random.default_rng(3)
    wrong_by = (2.5, 0.5, 1.6)
    fit = fit_temperatures(collected(rng, wrong_by), collected(rng, wrong_by))
    assert fit.temperatures == pytest.approx(wrong_by, rel=0.06)
    assert fit.is_enough and fit.error_after < 0.2 * fit.error_before
    assert all(item.error_after < item.error_before for item in fit.positions)
    assert fit.to_dict()["temperatures"] == list(fit.temperatures) and fit.to_dict()["num_drafts"] == 3


def test_what_does_not_help_on_held_out_drafts_is_not_taken():
    rng = np.random.default_rng(4)
    fit = fit_temperatures(collected(rng, (3.0,), 3000), collected(rng, (0.4,), 3000))
    assert fit.temperatures == (1.0,) and not fit.is_enough
    assert fit.positions[0].error_after == fit.positions[0].error_before
    empty = DraftCalibration(*(np.zeros((1, NUM_FINE), kind) for kind in (np.int64, np.int64, np.float64)))
    for pair in ((empty, empty), (empty, collected(rng, (2.0,), 100)), (collected(rng, (2.0,), 100), empty)):
        fit = fit_temperatures(*pair)
        assert fit.temperatures == (1.0,) and not fit.is_enough


def test_error_and_bins_by_hand():
    counts, accepted, sums = (
        np.zeros((1, NUM_FINE), np.int64),
        np.zeros((1, NUM_FINE), np.int64),
        np.zeros((1, NUM_FINE)),
    )
    for confidence, number, right in ((0.9, 10, 6), (0.1, 5, 1)):
        place = int((np.log(confidence / (1 - confidence)) + 10) * 8)
        counts[0, place], accepted[0, place], sums[0, place] = number, right, number * confidence
    calibration = DraftCalibration(counts, accepted, sums)
    assert calibration.expected_error() == pytest.approx((10 * 0.3 + 5 * 0.1) / 15)
    filled = [part for part in calibration.bins() if part[0]]
    assert [part[0] for part in filled] == [5, 10]
    assert filled[1] == pytest.approx((10, 0.9, 0.6))
    hotter = calibration.at_temperatures((2.0,))
    assert [part[1] for part in hotter.bins() if part[0]] == pytest.approx([0.25, 0.75])
    likelihood = -(6 * np.log(0.9) + 4 * np.log(0.1) + np.log(0.1) + 4 * np.log(0.9)) / 15
    assert calibration.negative_log_likelihood() == pytest.approx(likelihood)
    both = calibration + calibration
    assert both.num_judged == 30 and (both - calibration).expected_error() == calibration.expected_error()


def test_histogram_of_the_scheduler_has_the_same_bins():
    histogram = DraftCalibration.of(Scheduler(make_config(num_drafts=3)).draft_calibration())
    assert histogram.counts.shape == histogram.accepted.shape == histogram.confidence_sums.shape == (3, NUM_FINE)
    assert histogram.num_judged == 0 and histogram.expected_error() is None
