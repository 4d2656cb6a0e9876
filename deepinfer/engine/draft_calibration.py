"""How far the confidence of drafts could be believed: reliability, expected calibration error, other temperatures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

_MAX_LOGIT: Final = 10.0
_NUM_BINS: Final = 15


class _Histogram(Protocol):
    """`deepinfer._C.DraftCalibration`."""

    @property
    def counts(self) -> np.ndarray: ...
    @property
    def accepted(self) -> np.ndarray: ...
    @property
    def confidence_sums(self) -> np.ndarray: ...


@dataclass(frozen=True, slots=True, eq=False)
class DraftCalibration:
    """Histogram of judged drafts by position (G) and confidence (B fine bins of its log-odds, -10 to 10).

    A draft is judged when it is verified and all drafts before it were accepted; its confidence is the probability of
    exactly that event's good end. Two histograms of one engine may be subtracted: what lies between them.

    Attributes:
        counts, accepted: int64 [G, B].
        confidence_sums: float64 [G, B].
    """

    counts: np.ndarray
    accepted: np.ndarray
    confidence_sums: np.ndarray

    @classmethod
    def of(cls, histogram: _Histogram) -> DraftCalibration:
        """From the scheduler's."""
        return cls(histogram.counts, histogram.accepted, histogram.confidence_sums)

    def __sub__(self, earlier: DraftCalibration) -> DraftCalibration:
        return DraftCalibration(
            self.counts - earlier.counts,
            self.accepted - earlier.accepted,
            self.confidence_sums - earlier.confidence_sums,
        )

    def __add__(self, other: DraftCalibration) -> DraftCalibration:
        return DraftCalibration(
            self.counts + other.counts,
            self.accepted + other.accepted,
            self.confidence_sums + other.confidence_sums,
        )

    @property
    def num_drafts(self) -> int:
        """Positions."""
        return len(self.counts)

    @property
    def num_judged(self) -> int:
        """Drafts in it."""
        return int(self.counts.sum())

    def position(self, index: int) -> DraftCalibration:
        """Of the drafts at one position alone."""
        part = slice(index, index + 1)
        return DraftCalibration(self.counts[part], self.accepted[part], self.confidence_sums[part])

    def at_temperatures(self, temperatures: tuple[float, ...]) -> DraftCalibration:
        """The same drafts with confidences as other temperatures give them.

        Args:
            temperatures: [G] divisors of the log-odds, on top of those that were in force.
        """
        odds = self._log_odds() / np.asarray(temperatures)[:, None]
        return DraftCalibration(self.counts, self.accepted, self.counts / (1.0 + np.exp(-odds)))

    def negative_log_likelihood(self) -> float:
        """Nats per judged draft; 0 without any."""
        odds = self._log_odds()
        missed = self.counts - self.accepted
        total = (self.accepted * np.logaddexp(0.0, -odds) + missed * np.logaddexp(0.0, odds)).sum()
        return float(total / max(self.num_judged, 1))

    def bins(self, num_bins: int = _NUM_BINS) -> list[tuple[int, float, float]]:
        """Reliability: (drafts, mean confidence, share accepted) of each of num_bins equal parts of [0, 1]."""
        confidence = self._confidences()
        places = np.minimum((confidence * num_bins).astype(np.int64), num_bins - 1).ravel()
        count = np.bincount(places, self.counts.ravel(), num_bins)
        sums = np.bincount(places, self.confidence_sums.ravel(), num_bins)
        accepted = np.bincount(places, self.accepted.ravel(), num_bins)
        below = np.maximum(count, 1)
        triples = zip(count.tolist(), (sums / below).tolist(), (accepted / below).tolist(), strict=True)
        return [(int(number), mean, share) for number, mean, share in triples]

    def expected_error(self, num_bins: int = _NUM_BINS) -> float | None:
        """Expected calibration error: mean over drafts of |mean confidence - share accepted| of their bin."""
        if not self.num_judged:
            return None
        return sum(number * abs(mean - share) for number, mean, share in self.bins(num_bins)) / self.num_judged

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe summary: judged drafts, expected error, 15 bins."""
        bins = [{"drafts": number, "confidence": mean, "accepted": share} for number, mean, share in self.bins()]
        return {"num_judged": self.num_judged, "expected_error": self.expected_error(), "bins": bins}

    def _confidences(self) -> np.ndarray:
        """Mean confidence [G, B] of the drafts of a fine bin; its middle where it is empty."""
        num_fine = self.counts.shape[1]
        middles = -_MAX_LOGIT + (np.arange(num_fine) + 0.5) * (2 * _MAX_LOGIT / num_fine)
        empty = np.broadcast_to(1.0 / (1.0 + np.exp(-middles)), self.counts.shape)
        return np.where(self.counts > 0, self.confidence_sums / np.maximum(self.counts, 1), empty)

    def _log_odds(self) -> np.ndarray:
        inside = np.clip(self._confidences(), 1e-9, 1.0 - 1e-9)
        return np.log(inside / (1.0 - inside))
