"""The result of cache sizing: how many blocks and state slots, and why."""

from __future__ import annotations

from dataclasses import dataclass

from deepinfer.config.byte_size import format_byte_size


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Sizes of the caches.

    Attributes:
        num_blocks: blocks of the paged caches, >= 1.
        num_slots: state slots, >= 1.
        block_size: original tokens per block.
        block_bytes: bytes of one block over all paged caches.
        slot_bytes: bytes of one sequence's rings.
        resident_bytes: what the process held before the caches: program, libraries, weights; 0: not known.
        scratch_bytes: estimate of what the largest step takes beside these; 0: not known.
        reasons: the arithmetic, one sentence a line.
    """

    num_blocks: int
    num_slots: int
    block_size: int
    block_bytes: int
    slot_bytes: int
    resident_bytes: int
    scratch_bytes: int
    reasons: tuple[str, ...]

    @property
    def num_tokens(self) -> int:
        """Tokens that fit into the paged caches."""
        return self.num_blocks * self.block_size

    @property
    def total_bytes(self) -> int:
        """Bytes of all caches."""
        return self.num_blocks * self.block_bytes + self.num_slots * self.slot_bytes

    @property
    def peak_bytes(self) -> int:
        """What the process will hold at most, once every block and slot has been used."""
        return self.resident_bytes + self.total_bytes + self.scratch_bytes

    def explain(self) -> str:
        """The arithmetic in words."""
        slots, blocks = self.num_slots * self.slot_bytes, self.num_blocks * self.block_bytes
        per_token = self.block_bytes / self.block_size
        lines = [
            *self.reasons,
            f"{self.num_slots} state slots x {self.slot_bytes:,} B = {format_byte_size(slots)}",
            f"{self.num_blocks} blocks x {self.block_bytes:,} B = {format_byte_size(blocks)}"
            f" ({self.block_size} tokens a block, {per_token:g} B a token)",
            f"together {format_byte_size(self.total_bytes)} for {self.num_tokens:,} tokens",
        ]
        if self.resident_bytes:
            lines.append(
                f"the process holds {format_byte_size(self.resident_bytes)} before them, and its largest step takes "
                f"about {format_byte_size(self.scratch_bytes)}: at most {format_byte_size(self.peak_bytes)} in all"
            )
        return "\n".join(lines)
