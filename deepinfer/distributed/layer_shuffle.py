"""What moves in one layer when a placement of experts gives way to another."""

from __future__ import annotations

from dataclasses import dataclass

from deepinfer.distributed.expert_move import ExpertMove


@dataclass(frozen=True, slots=True)
class LayerShuffle:
    """To be done in this order; a place that keeps its expert is in none of them. Made by `plan_shuffle`.

    Attributes:
        transfers: from rank to rank. They and `copies` read the old weights: no place may be written before all that
            it is the source of have been read (or into buffers first). A rank receives an expert once at most. Both
            sides post them in this order.
        copies: inside a rank.
        duplicates: inside a rank, from a place that a transfer has filled to further places of the same expert.
    """

    transfers: tuple[ExpertMove, ...]
    copies: tuple[ExpertMove, ...]
    duplicates: tuple[ExpertMove, ...]
