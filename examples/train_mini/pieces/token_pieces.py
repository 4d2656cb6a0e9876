"""Pieces that see rows of tokens [N, ...], whatever sequence they are of. Activations are bf16, sums float32."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from examples.train_mini.pieces.number_formats import BF16, round_entries, round_fp4, round_fp8, round_weight

OUT = -1e30  # a score that nothing chooses


def norm_rows(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    """RMS norm of [N, D]."""
    x = x.float()
    return (x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-20) * gain.to(BF16).float()).to(BF16)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Neighbouring pairs of the last columns turn by the angles [N, r/2]."""
    width = 2 * cos.shape[-1]
    while cos.dim() < x.dim():
        cos, sin = cos.unsqueeze(-2), sin.unsqueeze(-2)
    a, b = x[..., -width:].float().unflatten(-1, (-1, 2)).unbind(-1)
    turned = torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)
    return torch.cat((x[..., :-width], turned.to(x.dtype)), -1)


def mix(
    streams: torch.Tensor, fn: torch.Tensor, base: torch.Tensor, scale: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Hyper-connection weights of streams [N, S, D]: read [N, S], write [N, S], logits of the mixture [N, S, S]."""
    count = streams.shape[1]
    flat = streams.flatten(1)
    wide = flat.float()
    mixed = (flat @ fn.to(BF16).T).float() * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + 1e-20)
    pre = torch.sigmoid(mixed[:, :count] * scale[0] + base[:count]) + eps
    post = 2 * torch.sigmoid(mixed[:, count : 2 * count] * scale[1] + base[count : 2 * count])
    logits = mixed[:, 2 * count :] * scale[2] + base[2 * count :]
    return pre, post, logits.reshape(-1, count, count)


def collapse(streams: torch.Tensor, pre: torch.Tensor) -> torch.Tensor:
    """Weighted sum of streams [N, S, D] -> [N, D]."""
    wide = streams.float()
    total = wide[:, 0] * pre[:, 0, None]
    for i in range(1, streams.shape[1]):
        total = total + wide[:, i] * pre[:, i, None]
    return total.to(BF16)


def write(streams: torch.Tensor, out: torch.Tensor, post: torch.Tensor, comb: torch.Tensor) -> torch.Tensor:
    """Streams [N, S, D] behind a sublayer: mixed by comb [N, S, S], its output [N, D] added by post [N, S]."""
    wide, out = streams.float(), out.float()
    written = []
    for j in range(streams.shape[1]):
        total = post[:, j, None] * out
        for i in range(streams.shape[1]):
            total = total + comb[:, i, j, None] * wide[:, i]
        written.append(total.to(BF16))
    return torch.stack(written, 1)


def attention_inputs(
    x: torch.Tensor,
    wq_a: torch.Tensor,
    q_gain: torch.Tensor,
    wq_b: torch.Tensor,
    wkv: torch.Tensor,
    kv_gain: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    num_heads: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """x [N, D] -> low-rank queries [N, q], queries [N, H, d], window keys [N, d]."""
    rounded = round_fp8(x)
    low = norm_rows(rounded @ round_weight(wq_a).T, q_gain)
    queries = (round_fp8(low) @ round_weight(wq_b).T).unflatten(-1, (num_heads, -1))
    keys = norm_rows(rounded @ round_weight(wkv).T, kv_gain)
    return low, rotate(queries, cos, sin), round_fp8(rotate(keys, cos, sin))


def context_keys(
    x: torch.Tensor, wkv: torch.Tensor, kv_gain: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> torch.Tensor:
    """Window keys [N, d] of a draft stage, from features of the target [N, D]."""
    return round_fp8(rotate(norm_rows(round_fp8(x) @ round_weight(wkv).T, kv_gain), cos, sin))


def attention_output(
    heads: torch.Tensor, wo_a: torch.Tensor, wo_b: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, num_groups: int
) -> torch.Tensor:
    """heads [N, H, d] -> [N, D]."""
    turned = round_fp8(rotate(heads, cos, -sin).flatten(1)).unflatten(-1, (num_groups, -1))
    matrices = round_weight(wo_a).unflatten(0, (num_groups, -1))
    low = torch.bmm(turned.transpose(0, 1), matrices.transpose(1, 2)).transpose(0, 1).flatten(1)
    return round_fp8(low) @ round_weight(wo_b).T


def experts(
    x: torch.Tensor,
    gate: torch.Tensor,
    bias: torch.Tensor,
    routed: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    shared: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    route_scale: float,
    limit: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """x [N, D] -> output [N, D], tokens of each expert [E]. Two experts a token and the shared one.

    All experts (w1, w3 [E, I, D], w2 [E, D, I]) are evaluated; those that were not chosen get weight zero.
    """
    w1, w3, w2 = routed
    count, inner, hidden = w1.shape
    scores = torch.sqrt(F.softplus((x @ gate.to(BF16).T).float()) + 1e-12)
    ranks = (scores + bias).detach()
    first = F.one_hot(ranks.argmax(-1), count).bool()
    second = F.one_hot(ranks.masked_fill(first, OUT).argmax(-1), count).bool()
    chosen = (first | second).float()
    weights = scores * chosen
    weights = weights / (weights.sum(-1, keepdim=True) + 1e-20) * route_scale
    rounded = round_fp8(x)
    all_w1 = torch.cat((round_fp4(w1).reshape(count * inner, hidden), round_weight(shared[0])), 0)
    all_w3 = torch.cat((round_fp4(w3).reshape(count * inner, hidden), round_weight(shared[1])), 0)
    all_w2 = torch.cat((round_fp4(w2).permute(1, 0, 2).reshape(hidden, count * inner), round_weight(shared[2])), 1)
    gates = (rounded @ all_w1.T).float().clamp(max=limit)
    ups = (rounded @ all_w3.T).float().clamp(-limit, limit)
    weights = torch.cat((weights, torch.ones_like(weights[:, :1])), 1)
    hidden_values = (F.silu(gates) * ups).unflatten(-1, (count + 1, inner)) * weights[:, :, None]
    return round_fp8(hidden_values.flatten(1).to(BF16)) @ all_w2.T, chosen.sum(0).detach()


def engram(
    streams: torch.Tensor, found: torch.Tensor, wkv: torch.Tensor, q_weight: torch.Tensor, k_weight: torch.Tensor
) -> torch.Tensor:
    """Streams [N, S, D] with the looked-up rows [N, R, hd] let in by a gate."""
    count, hidden = streams.shape[1:]
    both = (round_fp8(found.flatten(1)) @ round_weight(wkv).T).unflatten(-1, (count + 1, hidden))
    keys, value = both[:, :count].float(), both[:, count].float()
    wide = streams.float()
    dot = (wide * keys * (q_weight.to(BF16).float() * k_weight.to(BF16).float())).sum(-1) * hidden**-0.5
    dot = dot * torch.rsqrt((wide * wide).mean(-1) + 1e-20) * torch.rsqrt((keys * keys).mean(-1) + 1e-12)
    size = dot.abs()
    soft = torch.sqrt(size + 0.05)  # bounded slope for the backward pass
    size = soft + (size.clamp_min(1e-6).sqrt() - soft).detach()
    gate = torch.sigmoid(torch.copysign(torch.ones_like(dot), dot) * size)
    return (wide + gate[:, :, None] * value[:, None]).to(BF16)


def compress(
    x: torch.Tensor,
    wkv: torch.Tensor,
    wgate: torch.Tensor | None,
    gain: torch.Tensor,
    wk: torch.Tensor,
    k_gain: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    ratio: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """x [N, D] -> compressed entries [N / ratio, d] and index keys [N / ratio, di]."""
    values = x @ wkv.to(BF16).T
    if wgate is not None:
        gates = (x @ wgate.to(BF16).T).float().unflatten(0, (-1, ratio))
        values = (torch.softmax(gates, 1) * values.float().unflatten(0, (-1, ratio))).sum(1).to(BF16)
    latents = norm_rows(values, gain)
    keys = norm_rows(latents.detach() @ wk.to(BF16).T, k_gain)
    return round_entries(rotate(latents, cos, sin)), round_fp4(rotate(keys, cos, sin))
