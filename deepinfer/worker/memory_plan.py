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
        reasons: the arithmetic, one sentence a line.
    """

    num_blocks: int
    num_slots: int
    block_size: int
    block_bytes: int
    slot_bytes: int
    reasons: tuple[str, ...]

    @property
    def num_tokens(self) -> int:
        """Tokens that fit into the paged caches."""
        return self.num_blocks * self.block_size

    @property
    def total_bytes(self) -> int:
        """Bytes of all caches."""
        return self.num_blocks * self.block_bytes + self.num_slots * self.slot_bytes

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
        return "\n".join(lines)
