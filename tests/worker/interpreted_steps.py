"""Decode steps in Triton's interpreter against the host's way; run with TRITON_INTERPRET=1."""

from __future__ import annotations

import torch

from tests.worker.device_steps import check_device_steps

CPU = torch.device("cpu")


def main() -> None:
    for seed, rejection in ((5, False), (5, True)):
        judged, accepted = check_device_steps(seed, (3, 16, 12), rejection, CPU)
        assert 0 < accepted < judged
    print("equal")


if __name__ == "__main__":
    main()
