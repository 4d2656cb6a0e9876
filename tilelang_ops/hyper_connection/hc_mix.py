"""Hyper-connections: the read, write and mixing weights of one sublayer."""

import torch

from tilelang_ops.hyper_connection.hc_advance import advance
from tilelang_ops.hyper_connection.hc_settle import settle


def hc_mix(
    streams: torch.Tensor,
    fn: torch.Tensor,
    base: torch.Tensor,
    scale: torch.Tensor,
    *,
    sinkhorn_iters: int,
    eps: float,
    norm_eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Projection of the normed, flattened streams, sigmoid gates and a Sinkhorn-normalised matrix.

    Args:
        streams: bf16 [T, S, D] contiguous, D a multiple of 8, S at most 4.
        fn: float32 [S*(S+2), S*D].
        base: float32 [S*(S+2)].
        scale: float32 [3].
        sinkhorn_iters: column passes.
        eps: added to gates and sums.
        norm_eps: added to the mean square.

    Returns:
        pre [T, S], post [T, S], comb [T, S, S], float32.
    """
    num_rows, size, dim = streams.shape
    if not num_rows:
        return fn.new_empty(0, size), fn.new_empty(0, size), fn.new_empty(0, size, size)
    _, _, partial = advance(streams, None, None, fn)
    options = {"sinkhorn_iters": sinkhorn_iters, "eps": eps, "norm_eps": norm_eps}
    _, pre, post, comb = settle(partial, None, base, scale, dim=dim, **options)
    return pre, post, comb
