"""Weights of the experts as the kernels take them."""

from dataclasses import dataclass

import torch

Packed = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True, slots=True)
class ExpertWeights:
    """Gate (w1), up (w3) and down (w2) matrices of the routed experts and of the shared one, with their scales.

    Attributes:
        routed: (codes, scales) of w1 [E, I, D], w3 [E, I, D] and w2 [E, D, I]: FP4, uint8 [E, N, K/2] with uint8
            [E, N, K/32].
        shared: the same of the shared expert: FP8, e4m3 [N, K] with uint8 [N/32, K/32] (rounded up). None: it takes no
            rows.
    """

    routed: tuple[Packed, ...]
    shared: tuple[Packed, ...] | None

    @property
    def num_experts(self) -> int:
        return self.routed[0][0].shape[0]

    @property
    def dim(self) -> int:
        return self.routed[2][0].shape[1]

    @property
    def hidden_dim(self) -> int:
        return self.routed[0][0].shape[1]

    def num_shared(self, num_rows: int) -> int:
        """Rows of a step that the shared expert takes."""
        return 0 if self.shared is None else num_rows

    def flat(self, *places: int) -> list[torch.Tensor]:
        """32-bit words and scale bytes, of one dimension, of those matrices: the routed ones, then the shared ones.

        Without a shared expert the routed ones stand in for it, unread.
        """
        flat = []
        for group in (self.routed, self.shared or self.routed):
            for codes, scales in (group[place] for place in places):
                assert codes.is_contiguous() and codes.data_ptr() % 16 == 0, "weights are read 16 bytes at a time"
                flat += [codes.view(torch.uint8).view(-1).view(torch.int32), scales.contiguous().view(-1)]
        return flat
