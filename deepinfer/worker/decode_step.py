"""What a decode step's forward pass leaves on the device."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from deepinfer.core.decode_rows import DecodeRows


@dataclass(frozen=True, slots=True)
class DecodeStep:
    """Of `StaticDecoder.forward`; valid until the next one.

    Attributes:
        rows: T rows and S sequences, padding included; T is the step's bucket, and S follows from it.
        hidden: [T, D] final hidden states in the activation dtype; those of padding rows mean nothing.
        num_seqs: what the step's sequences are padded to where only they matter, at most S.
    """

    rows: DecodeRows
    hidden: torch.Tensor
    num_seqs: int
