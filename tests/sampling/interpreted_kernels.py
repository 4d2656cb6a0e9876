"""The sampling kernels in Triton's interpreter against the torch sampler; run with TRITON_INTERPRET=1."""

from __future__ import annotations

import torch

from tests.sampling.draft_loop import check_draft_loop
from tests.sampling.kernel_rows import Rows, check_draws, check_masks, check_rejection, check_sampler

CPU = torch.device("cpu")


def main() -> None:
    check_draws(Rows(1, 12, 50, padding=3), 50, CPU)
    check_draws(Rows(2, 3, 4500), 4500, CPU)
    check_draws(Rows(3, 0, 10), 10, CPU)
    assert min(check_rejection(4, 12, 60, CPU)) > 0
    check_rejection(5, 4, 4200, CPU)
    check_masks(6, 3, 1100, CPU)
    check_sampler(7, 10, 40, CPU)
    check_draft_loop(8, 3, 20, CPU)
    print("equal")


if __name__ == "__main__":
    main()
