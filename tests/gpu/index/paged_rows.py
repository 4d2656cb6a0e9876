"""Random index keys in a paged cache, and rows of several sequences that look at them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch

from deepinfer.core.cache_spec import KVRounding, VectorFormat
from deepinfer.ops.reference.decode_vectors import decode_vectors
from deepinfer.ops.reference.encode_vectors import encode_vectors
from deepinfer.ops.reference.index_scores import index_scores
from deepinfer.ops.reference.round_vectors import round_vectors

_SEEDS = itertools.count(torch.seed() % 2**31)


@dataclass(frozen=True)
class PagedRows:
    """`dense` float32 [S, N, di]: the decoded keys of each sequence; `row_group` int64 [T]; the rest as in the ops."""

    q: torch.Tensor
    head_weights: torch.Tensor
    data: torch.Tensor
    block_ids: torch.Tensor
    first_block: torch.Tensor
    num_visible: torch.Tensor
    row_group: torch.Tensor
    dense: torch.Tensor
    key_format: VectorFormat

    @property
    def max_visible(self) -> int:
        return int(self.num_visible.max()) if self.num_visible.numel() else 0

    @property
    def num_rows(self) -> int:
        return self.q.shape[0]

    def reference_scores(self, scale: float, round_bf16: bool) -> torch.Tensor:
        """float32 [T, N], -inf at what a row does not see."""
        return index_scores(
            self.q,
            self.head_weights,
            self.dense,
            self.row_group,
            self.num_visible,
            scale=scale,
            round_bf16=round_bf16,
        )

    def error_bound(self, scale: float, round_bf16: bool) -> torch.Tensor:
        """float32 [T, 1]: what the order of float32 sums may change, and one step of a bf16 score."""
        norms = self.q.norm(dim=-1) * self.head_weights.abs()
        bound = 4e-6 * scale * norms.sum(1, keepdim=True) * self.dense.norm(dim=-1).max()
        if not round_bf16:
            return bound
        exact = self.reference_scores(scale, False)
        return bound + torch.where(exact.isfinite(), exact.abs(), 0.0) * 2**-7


def new_generator(device: torch.device) -> torch.Generator:
    """Another one at every call and in every run."""
    return torch.Generator(device=device).manual_seed(next(_SEEDS))


def paged_rows(
    device: torch.device, sequences: list[tuple[int, int]], *, heads: int, dim: int, entries_per_block: int
) -> PagedRows:
    """Rows of sequences given as (entries, rows): the last row sees all entries, each one before it one less."""
    generator = new_generator(device)
    key_format = VectorFormat(dim, KVRounding.FP4_GROUP32, packed=True)
    longest = max((entries for entries, _ in sequences), default=0)
    blocks_of = [-(-entries // entries_per_block) for entries, _ in sequences]
    num_units = sum(blocks_of) + 3
    # What no sequence holds is NaN.
    data = torch.full((num_units, entries_per_block, key_format.num_bytes), 255, dtype=torch.uint8, device=device)
    order = torch.randperm(num_units, generator=generator, device=device)
    dense = torch.zeros(len(sequences), longest, dim, device=device)
    visible, firsts, groups, used = [], [], [], 0
    for group, ((entries, rows), blocks) in enumerate(zip(sequences, blocks_of, strict=True)):
        spread = torch.exp2(torch.randint(-3, 4, (entries, dim // 32), generator=generator, device=device).float())
        keys = torch.randn(entries, dim, generator=generator, device=device) * spread.repeat_interleave(32, 1)
        encoded = encode_vectors(keys, key_format)
        dense[group, :entries] = decode_vectors(encoded, key_format)
        place = torch.arange(entries, device=device)
        data[order[used + place // entries_per_block], place % entries_per_block] = encoded
        visible += [max(0, entries - rows + 1 + i) for i in range(rows)]
        firsts += [used] * rows
        groups += [group] * rows
        used += blocks
    q = torch.randn(len(visible), heads, dim, generator=generator, device=device)
    return PagedRows(
        q=round_vectors(q, KVRounding.FP4_GROUP32).float(),
        head_weights=torch.randn(len(visible), heads, generator=generator, device=device),
        data=data,
        block_ids=order[:used].contiguous() if used else order[:1].contiguous(),
        first_block=torch.tensor(firsts, dtype=torch.int64, device=device),
        num_visible=torch.tensor(visible, dtype=torch.int64, device=device),
        row_group=torch.tensor(groups, dtype=torch.int64, device=device),
        dense=dense,
        key_format=key_format,
    )


def random_candidates(rows: PagedRows, *, count: int, block_size: int) -> torch.Tensor:
    """int64 [T, count]: some of the blocks that a row sees, the newest among them, ascending, -1 padded."""
    device = rows.q.device
    total = -(-rows.max_visible // block_size)
    key = torch.rand(rows.num_rows, max(total, 1), generator=new_generator(device), device=device)
    numbers = torch.arange(key.shape[1], device=device)
    newest = (rows.num_visible.unsqueeze(1) - 1).div(block_size, rounding_mode="floor")
    key = torch.where(numbers > newest, -1.0, torch.where(numbers == newest, 2.0, key))
    best = key.topk(min(count, key.shape[1]), dim=1)
    far = torch.iinfo(torch.int64).max
    chosen = torch.where(best.values < 0, far, best.indices).sort(dim=1).values
    out = torch.full((rows.num_rows, count), -1, dtype=torch.int64, device=device)
    out[:, : chosen.shape[1]] = torch.where(chosen == far, -1, chosen)
    return out
