"""Hyper-connections between two sublayers: write, read with norm, and mix in two launches."""

import torch

from tilelang_ops.hyper_connection.hc_advance import advance
from tilelang_ops.hyper_connection.hc_settle import settle


def hc_step(
    streams: torch.Tensor,
    pre: torch.Tensor,
    update: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None,
    weight: torch.Tensor,
    mixing: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    *,
    sinkhorn_iters: int,
    eps: float,
    norm_eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """`hc_write` of a sublayer's output, then `hc_read_norm` and `hc_mix` of the new streams for the next sublayer.

    The first kernel goes over the streams once and leaves partial sums; the second one makes of them what needs whole
    rows. No sum's order depends on the number of rows.

    Args:
        streams: bf16 [T, S, D] contiguous, D a multiple of 8, S at most 4.
        pre: float32 [T, S], weights of the read.
        update: out bf16 [T, D], post float32 [T, S], comb float32 [T, S, S] of the write; None: there is none.
        weight: bf16 [D] of the norm.
        mixing: fn float32 [S*(S+2), S*D], base float32 [S*(S+2)], scale float32 [3].
        sinkhorn_iters: column passes.
        eps: added to gates and sums.
        norm_eps: added to mean squares.

    Returns:
        new streams bf16 [T, S, D] (those given, without `update`), x bf16 [T, D], and float32 pre [T, S], post [T, S],
        comb [T, S, S] of the next step.
    """
    num_rows, size, dim = streams.shape
    fn, base, scale = mixing
    if not num_rows:
        gates = fn.new_empty(0, size)
        return streams, streams.new_empty(0, dim), gates, gates, fn.new_empty(0, size, size)
    new, read, partial = advance(streams, pre, update, fn)
    assert read is not None
    options = {"sinkhorn_iters": sinkhorn_iters, "eps": eps, "norm_eps": norm_eps}
    x, pre, post, comb = settle(partial, (read, weight), base, scale, dim=dim, **options)
    assert x is not None
    return new, x, pre, post, comb
