"""Attention with masks, over B sequences of T tokens; T is a multiple of the window W."""

from __future__ import annotations

import torch

from examples.train_mini.pieces.number_formats import BF16, round_fp4, round_fp8, round_weight
from examples.train_mini.pieces.token_pieces import OUT, rotate


def attend_window(q: torch.Tensor, keys: torch.Tensor, sink: torch.Tensor, batch: int, window: int) -> torch.Tensor:
    """q [B*T, H, d], keys [B*T, d] -> [B*T, H, d]: the last W tokens, a key being also its value."""
    logits, blocks = _window_logits(q, keys, batch, window)
    return _attend(logits, blocks, None, None, sink)[0]


def attend_both(
    q: torch.Tensor,
    keys: torch.Tensor,
    entries: torch.Tensor,
    visible: torch.Tensor,
    sink: torch.Tensor,
    window: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same with compressed entries [B, N, d] where visible [B, T, N]; also their shares of attention [B, T, N]."""
    batch, length = visible.shape[:2]
    logits, blocks = _window_logits(q, keys, batch, window)
    heads, dim = q.shape[1:]
    far = torch.bmm(q.reshape(batch, length * heads, dim), entries.transpose(1, 2))
    far = far.reshape(batch, length, heads, -1).float() * dim**-0.5
    return _attend(logits, blocks, torch.where(visible[:, :, None], far, OUT), entries, sink)


def attend_block(
    q: torch.Tensor,
    keys: torch.Tensor,
    context: torch.Tensor,
    places: torch.Tensor,
    is_there: torch.Tensor,
    sink: torch.Tensor,
) -> torch.Tensor:
    """Blocks of drafts: q [n*G, H, d], keys [n*G, d] see their context rows `places` [n, W] and their whole block."""
    heads, dim = q.shape[1:]
    count, window = places.shape
    size = q.shape[0] // count
    all_keys = torch.cat((context[places], keys.reshape(count, size, dim)), 1)
    logits = torch.bmm(q.reshape(count, size * heads, dim), all_keys.transpose(1, 2))
    logits = logits.reshape(count, size, heads, window + size).float() * dim**-0.5
    is_there = torch.cat((is_there, torch.ones_like(is_there[:, :size])), 1)
    logits = torch.where(is_there[:, None, None], logits, OUT)
    sinks = sink[None, None, :, None]
    top = torch.maximum(logits.detach().amax(-1, keepdim=True), sinks.detach())
    powers = torch.exp(logits - top)
    shares = powers / (powers.sum(-1, keepdim=True) + torch.exp(sinks - top))
    values = torch.bmm(shares.to(BF16).reshape(count, size * heads, window + size), all_keys)
    return values.reshape(count * size, heads, dim)


def index_scores(
    x: torch.Tensor,
    low: torch.Tensor,
    wq_b: torch.Tensor,
    weights_proj: torch.Tensor,
    keys: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    num_heads: int,
) -> torch.Tensor:
    """Scores [B, T, N] of index keys [B, N, di]; nothing of the model itself learns from them."""
    batch = keys.shape[0]
    queries = (round_fp8(low.detach()) @ round_weight(wq_b).T).unflatten(-1, (num_heads, -1))
    queries = round_fp4(rotate(queries, cos, sin))
    length, dim = x.shape[0] // batch, queries.shape[-1]
    votes = (x.detach() @ weights_proj.to(BF16).T).float() * (dim**-0.5 * num_heads**-0.5)
    products = torch.bmm(queries.reshape(batch, length * num_heads, dim), keys.transpose(1, 2))
    products = products.reshape(batch, length, num_heads, -1).float().relu()
    return (products * votes.reshape(batch, length, num_heads, 1)).sum(2)


def index_loss(scores: torch.Tensor, shares: torch.Tensor, visible: torch.Tensor) -> torch.Tensor:
    """KL(shares of attention || softmax of scores) over the visible entries, mean of rows that attend to any."""
    target = torch.where(visible, shares.float(), 0.0)
    total = target.sum(-1, keepdim=True)
    target = target / (total + 1e-9)
    logprobs = torch.log_softmax(torch.where(visible, scores, OUT), -1)
    kl = torch.where(target > 1e-9, target * (torch.log(target.clamp_min(1e-9)) - logprobs), 0.0).sum(-1)
    counts = (total[..., 0] > 1e-4).float()
    return (kl * counts).sum() / (counts.sum() + 1)


def _window_logits(q: torch.Tensor, keys: torch.Tensor, batch: int, window: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits [B, T, H, 2W] in blocks of W rows over their own and the previous block's keys; those keys [.., 2W, d]."""
    heads, dim = q.shape[1:]
    blocks = keys.reshape(batch, -1, window, dim)
    count = blocks.shape[1]
    previous = torch.cat((torch.zeros_like(blocks[:, :1]), blocks[:, :-1]), 1)
    blocks = torch.cat((previous, blocks), 2).reshape(batch * count, 2 * window, dim)
    logits = torch.bmm(q.reshape(batch * count, window * heads, dim), blocks.transpose(1, 2))
    logits = logits.reshape(batch, count, window, heads, 2 * window).float() * dim**-0.5
    row = torch.arange(window, device=q.device)[:, None]
    column = torch.arange(2 * window, device=q.device)[None, :] - window
    is_seen = ((row - column) >= 0) & ((row - column) < window)
    has_previous = (torch.arange(count, device=q.device) > 0)[:, None, None] | (column >= 0)[None]
    is_seen = is_seen[None] & has_previous
    logits = torch.where(is_seen[None, :, :, None], logits, OUT)
    return logits.reshape(batch, count * window, heads, 2 * window), blocks


def _attend(
    near: torch.Tensor,
    blocks: torch.Tensor,
    far: torch.Tensor | None,
    entries: torch.Tensor | None,
    sink: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Softmax over window, entries and sink; values [B*T, H, d] and, with entries, their shares [B, T, N]."""
    batch, length, heads, width = near.shape
    sinks = sink[None, None, :, None]
    top = torch.maximum(near.detach().amax(-1, keepdim=True), sinks.detach())
    if far is not None:
        top = torch.maximum(top, far.detach().amax(-1, keepdim=True))
    near = torch.exp(near - top)
    total = near.sum(-1, keepdim=True) + torch.exp(sinks - top)
    if far is not None:
        far = torch.exp(far - top)
        total = total + far.sum(-1, keepdim=True)
    rows = (near / total).to(BF16).reshape(blocks.shape[0], -1, width)
    values = torch.bmm(rows, blocks).reshape(batch * length, heads, -1)
    if far is None or entries is None:
        return values, None
    far = far / total
    values = values + torch.bmm(far.to(BF16).reshape(batch, length * heads, -1), entries).reshape(values.shape)
    return values, far.detach().mean(2).to(BF16)
