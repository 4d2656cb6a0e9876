"""Kernels that make rows of plans, and map them, in Triton's interpreter; run with TRITON_INTERPRET=1."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from deepinfer.ops.cuda.map_rows import map_rows
from deepinfer.ops.cuda.resolve_rows import resolve_rows
from deepinfer.worker.eager_calls import EagerCalls
from tests.worker.decode_chains import Resolver, check_chain
from tests.worker.decode_maps import check_maps, check_resolved

CPU = torch.device("cpu")


def main() -> None:
    ops: Any = SimpleNamespace(resolve_rows=resolve_rows, map_rows=map_rows)  # the others load tilelang
    for seed in range(3):
        check_chain(seed, Resolver(CPU, EagerCalls(), ops), num_links=2)
    for seed, sizes in enumerate([(1, 0, 0, 1), (3, 0, 2, 5), (5, 4, 0, 9), (17, 1, 3, 23), (2, 18, 3, 31)]):
        check_resolved(seed, sizes, ops, CPU)
    for seed, count in enumerate([0, 1, 7, 12]):
        check_maps(seed, count, ops, CPU)
    print("equal")


if __name__ == "__main__":
    main()
