"""The modes in force that outputs follow; most of them every output's metrics tell."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunModes:
    """Filled from the resolved engine config.

    Attributes:
        batch_invariant: whether results are independent of the batch.
        numerics: "official", "fp32-quant" or "fp32".
        backend: "reference", "cpu" or "cuda".
        report_confidences: whether outputs hold the confidences of their drafts.
    """

    batch_invariant: bool
    numerics: str
    backend: str
    report_confidences: bool = False
