"""The numbers of a decode plan in one flat tensor: one transfer brings them all to the device."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from deepinfer.core.decode_sizes import DecodeSizes

_ALIGNED_WORDS = 2  # every view begins at a multiple of 16 bytes: kernels have another form for pointers that do not
_PER_SEQ = ("remap", "num_rows", "context_lens", "max_lens", "draft_caps", "state_slots", "first_blocks")


@dataclass(frozen=True, slots=True)
class DecodeFields:
    """Views into one int64 tensor, on the host or on the device. What is not a number of the plan is padding.

    Padding sequences, of which `num_rows` is 0, repeat the last one.

    Attributes:
        words: [N] the tensor; the block tables come last, so that only as much is moved as there are.
        num_draft_rows: [1] rows that the drafts of all sequences share.
        rate_factors: float32 [G] what a predicted rate is worth, by position.
        remap: [S] the sequence's place in the previous step, or -1.
        num_rows: [S] rows of an exact plan's sequences; of a linked plan's, some number above 0.
        context_lens, max_lens, draft_caps, state_slots: [S] as in `StepPlan`.
        first_blocks: [S] where each block table begins.
        lines: [S, L + 1 + G] look-back with the nearest token last, newest token, drafts; -1 for none.
        block_ids: [B].
    """

    words: torch.Tensor
    num_draft_rows: torch.Tensor
    rate_factors: torch.Tensor
    remap: torch.Tensor
    num_rows: torch.Tensor
    context_lens: torch.Tensor
    max_lens: torch.Tensor
    draft_caps: torch.Tensor
    state_slots: torch.Tensor
    first_blocks: torch.Tensor
    lines: torch.Tensor
    block_ids: torch.Tensor

    @classmethod
    def allocate(cls, sizes: DecodeSizes, device: torch.device, pin_memory: bool = False) -> DecodeFields:
        """Zeroed, for steps of any number of sequences."""
        seqs, width = sizes.max_num_seqs, sizes.line_width
        num_factor_words = -(-sizes.num_drafts // 2)
        counts = [1, num_factor_words, *[seqs] * len(_PER_SEQ), seqs * width, sizes.max_blocks]
        sizes_apart = [-(-count // _ALIGNED_WORDS) * _ALIGNED_WORDS for count in counts[:-1]] + counts[-1:]
        words = torch.zeros(sum(sizes_apart), dtype=torch.int64, device=device, pin_memory=pin_memory)
        parts = [part[:count] for part, count in zip(words.split(sizes_apart), counts, strict=True)]
        rows, factors, *per_seq, lines, blocks = parts
        return cls(
            words=words,
            num_draft_rows=rows,
            rate_factors=factors.view(torch.float32)[: sizes.num_drafts],
            **dict(zip(_PER_SEQ, per_seq, strict=True)),
            lines=lines.view(seqs, width),
            block_ids=blocks,
        )

    def narrowed(self, num_seqs: int) -> DecodeFields:
        """The same for the first `num_seqs` sequences."""
        return replace(self, **{name: getattr(self, name)[:num_seqs] for name in (*_PER_SEQ, "lines")})
