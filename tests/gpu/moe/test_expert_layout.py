"""Assignments sorted by expert on a GPU, against a stable sort."""

from __future__ import annotations

import pytest
import torch

from tests.gpu.moe.random_experts import fresh_generator, random_choice
from tests.gpu.poison import poisoned_memory

pytest.importorskip("tilelang")


def even_tiles(counts: list[int], tile_rows: int) -> list[tuple[int, int, int]]:
    """(expert, first place, places): as few tiles as will do, of the same multiple of 8 but for an expert's last."""
    tiles, place = [], 0
    for expert, count in enumerate(counts):
        num_tiles = -(-count // tile_rows)
        rows = -(-count // (8 * max(num_tiles, 1))) * 8
        tiles += [(expert, place + i * rows, min(rows, count - i * rows)) for i in range(num_tiles)]
        place += count
    return tiles


@pytest.mark.parametrize("tile_rows", [8, 16, 24, 64, 80])
@pytest.mark.parametrize("size", [(16, 2), (8, 2), (384, 6), (128, 3), (1, 1)])  # experts, chosen
def test_against_a_stable_sort(device, size, tile_rows):
    from tilelang_ops.moe.expert_layout import expert_layout

    num_experts, top_k = size
    generator = fresh_generator(device)
    for num_rows in (1, 3, 33, 64, 257, 4099):
        ids = random_choice(num_rows, num_experts, top_k, generator)
        if num_rows == 257:
            ids[:, 0] = num_experts - 1
        weights = torch.rand(ids.shape, generator=generator, device=device)
        with poisoned_memory():
            layout = expert_layout(ids, weights, num_experts, tile_rows)
        what = f"T {num_rows}, size {size}, tile {tile_rows}, seed {generator.initial_seed()}"
        flat = ids.reshape(-1)
        assert torch.equal(layout.order.long(), torch.argsort(flat, stable=True)), what
        assert torch.equal(layout.weights, weights.reshape(-1)[layout.order.long()]), what
        tiles = even_tiles(torch.bincount(flat, minlength=num_experts).tolist(), tile_rows)
        assert layout.tiles_used.tolist() == [len(tiles)], what
        got = list(
            zip(layout.tile_expert.tolist(), layout.tile_begin.tolist(), layout.tile_count.tolist(), strict=True)
        )
        assert got[: len(tiles)] == tiles, what
        assert all(count == 0 for _, _, count in got[len(tiles) :]), f"{what}: {len(got)} tiles"


def test_one_expert_takes_everything(device):
    from tilelang_ops.moe.expert_layout import expert_layout

    ids = torch.full((1000, 1), 5, device=device)
    with poisoned_memory():
        layout = expert_layout(ids, torch.ones(ids.shape, device=device), 16, 64)
    assert layout.order.tolist() == list(range(1000))
    assert layout.tile_count.tolist()[:16] == [64] * 15 + [40]
    assert layout.tiles_used.tolist() == [16]


def test_ids_that_are_no_experts(device):
    """Those of -1 are in no tile, and nothing is counted for them."""
    from tilelang_ops.moe.expert_layout import expert_layout

    generator = fresh_generator(device)
    for share in (0.0, 0.1, 0.9):
        ids = random_choice(300, 48, 6, generator)
        ids[torch.rand(ids.shape, generator=generator, device=device) >= share] = -1
        with poisoned_memory():
            layout = expert_layout(ids, torch.rand(ids.shape, device=device), 48, 8)
        flat, used = ids.reshape(-1), int((ids >= 0).sum())
        what = f"share {share}, seed {generator.initial_seed()}"
        want = torch.argsort(torch.where(flat < 0, 48, flat), stable=True)[:used]
        assert torch.equal(layout.order[:used].long(), want), what
        tiles = even_tiles(torch.bincount(flat[flat >= 0], minlength=48).tolist(), 8)
        assert layout.tiles_used.tolist() == [len(tiles)], what
        assert layout.tile_expert[: len(tiles)].tolist() == [expert for expert, _, _ in tiles], what
        assert layout.tile_count.tolist() == [count for _, _, count in tiles] + [0] * (
            len(layout.tile_count) - len(tiles)
        )
