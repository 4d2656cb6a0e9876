"""What ranks that step together have agreed on about the step at hand."""

from __future__ import annotations

from dataclasses import dataclass

from deepinfer.core.decode_demand import DecodeDemand


@dataclass(slots=True)
class AgreedStep:
    """One a rank, with the same contents on all: whoever agrees writes it before the step, whoever runs the step reads.

    Attributes:
        decode: what a decode step of all ranks takes; None: the step is none, or nobody has asked.
    """

    decode: DecodeDemand | None = None
