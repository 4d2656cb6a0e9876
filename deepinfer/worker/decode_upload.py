"""Brings the numbers of a decode plan to the device: one transfer a step, which nobody waits for."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from deepinfer.core.decode_fields import DecodeFields
from deepinfer.core.decode_sizes import DecodeSizes
from deepinfer.core.step_plan import ForwardPlan

_NUM_BUFFERS = 2  # of the host: one is filled while the other may still be read


@dataclass(slots=True)
class _Buffer:
    """Pinned memory; `copied` is the event behind its latest transfer."""

    fields: DecodeFields
    arrays: dict[str, np.ndarray]
    copied: torch.cuda.Event | None = None


@dataclass(slots=True)
class DecodeUpload:
    """Fills `target` on the device from plans.

    Attributes:
        sizes: of all steps.
        target: where the numbers go.
    """

    sizes: DecodeSizes
    target: DecodeFields
    _buffers: list[_Buffer] = field(init=False)
    _num_sent: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        is_cuda = self.target.words.device.type == "cuda"
        self._buffers = [
            _buffer(DecodeFields.allocate(self.sizes, torch.device("cpu"), pin_memory=is_cuda))
            for _ in range(_NUM_BUFFERS)
        ]

    def send(self, plan: ForwardPlan) -> None:
        """Launch the transfer of a decode plan, exact or linked, on the current stream.

        It waits for the transfer before the last one, which is over long since unless the device is two steps behind.
        """
        buffer = self._next()
        self._move(buffer, self._fill(buffer, plan))

    def send_nothing(self) -> None:
        """The same for a step without sequences: every row is padding, at the start of a text in slot 0 and block 0."""
        buffer = self._next()
        num_words = len(buffer.arrays["words"]) - len(buffer.arrays["block_ids"]) + 1
        buffer.arrays["words"][:num_words] = 0
        buffer.arrays["remap"][:] = -1
        self._move(buffer, num_words)

    def _next(self) -> _Buffer:
        buffer = self._buffers[self._num_sent % _NUM_BUFFERS]
        self._num_sent += 1
        if buffer.copied is not None:
            buffer.copied.synchronize()
        return buffer

    def _move(self, buffer: _Buffer, num_words: int) -> None:
        self.target.words[:num_words].copy_(buffer.fields.words[:num_words], non_blocking=True)
        if self.target.words.device.type == "cuda":
            buffer.copied = buffer.copied or torch.cuda.Event()
            buffer.copied.record()

    def _fill(self, buffer: _Buffer, plan: ForwardPlan) -> int:
        """Write the plan's numbers; returns how many words have to be moved."""
        arrays, num_seqs = buffer.arrays, len(plan.seq_ids)
        lengths = np.diff(plan.cu_seqlens_q)
        arrays["num_draft_rows"][0] = plan.num_draft_rows
        arrays["rate_factors"][: len(plan.rate_factors)] = plan.rate_factors
        for name, values in (
            ("remap", plan.remap),
            ("context_lens", plan.context_lens),
            ("max_lens", plan.max_lens),
            ("draft_caps", plan.draft_caps),
            ("state_slots", plan.state_slots),
            ("first_blocks", plan.cu_blocks[:-1]),
            ("num_rows", lengths),
        ):
            arrays[name][:num_seqs] = values
            arrays[name][num_seqs:] = 0 if name == "num_rows" else values[-1]
        lines, lookback = arrays["lines"], self.sizes.num_lookback
        lines[:num_seqs, :lookback] = plan.lookback_ids[:, ::-1]
        seq = np.repeat(np.arange(num_seqs), lengths)
        lines[seq, lookback + np.arange(len(seq)) - plan.cu_seqlens_q[:-1][seq]] = plan.token_ids
        lines[num_seqs:] = lines[num_seqs - 1]
        num_blocks = len(plan.block_ids)
        arrays["block_ids"][:num_blocks] = plan.block_ids
        return len(arrays["words"]) - len(arrays["block_ids"]) + num_blocks


def _buffer(fields: DecodeFields) -> _Buffer:
    names = list(DecodeFields.__slots__)
    return _Buffer(fields, {name: getattr(fields, name).numpy() for name in names})
