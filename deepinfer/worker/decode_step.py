"""What a decode step's forward pass leaves on the device."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from deepinfer.core.decode_rows import DecodeRows


@dataclass(frozen=True, slots=True)
class DecodeStep:
    """Of `StaticDecoder.forward`; valid until the next one.

    Attributes:
        rows: T rows and S sequences, padding included; T and S depend on the step's bucket.
        hidden: [T, D] final hidden states in the activation dtype; those of padding rows mean nothing.
    """

    rows: DecodeRows
    hidden: torch.Tensor
