"""Manifold-constrained hyper-connections: how a sublayer reads and writes the residual streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

import torch

from deepinfer.models.deepseek_v41.runtime import ModelRuntime
from deepinfer.models.deepseek_v41.weight_reader import WeightReader


@dataclass(frozen=True, slots=True)
class Mixing:
    """Weights that one sublayer made from the streams before it ran (float32).

    Attributes:
        pre: [T, S] read weights of the *next* sublayer.
        post: [T, S] write weights of this sublayer's output.
        comb: [T, S, S] stream mixing of this sublayer's write; the first stream index is summed over.
    """

    pre: torch.Tensor
    post: torch.Tensor
    comb: torch.Tensor


class _Options(TypedDict):
    """Of `Ops.hc_mix`, the same in every call."""

    sinkhorn_iters: int
    eps: float
    norm_eps: float


class HyperConnection:
    """Mixing projection of one sublayer and the norm of what it reads (spec/model.md 3)."""

    def __init__(self, runtime: ModelRuntime, weights: WeightReader, sublayer: str) -> None:
        self._runtime = runtime
        self.fn = weights.plain(f"hc_{sublayer}_fn")
        self.base = weights.plain(f"hc_{sublayer}_base")
        self.scale = weights.plain(f"hc_{sublayer}_scale")
        self.norm_weight = weights.plain(f"{sublayer}_norm.weight")
        config = runtime.config
        self._options = _Options(
            sinkhorn_iters=config.hc_sinkhorn_iters, eps=config.hc_eps, norm_eps=config.rms_norm_eps
        )

    def enter(self, streams: torch.Tensor, pre: torch.Tensor) -> tuple[torch.Tensor, Mixing]:
        """`read` and `mix` in one: the sublayer's normed input [T, D] and its mixing weights."""
        _, x, *weights = self._step(streams, pre, None)
        return x, Mixing(*weights)

    def follow(
        self, streams: torch.Tensor, out: torch.Tensor, mixing: Mixing
    ) -> tuple[torch.Tensor, torch.Tensor, Mixing]:
        """`write` of the preceding sublayer's output [T, D] with its `mixing`, then `enter`: also the new streams."""
        new, x, *weights = self._step(streams, mixing.pre, (out, mixing.post, mixing.comb))
        return new, x, Mixing(*weights)

    def mix(self, streams: torch.Tensor) -> Mixing:
        """Mixing weights from streams [T, S, D]."""
        return Mixing(*self._runtime.ops.hc_mix(streams, self.fn, self.base, self.scale, **self._options))

    def read(self, streams: torch.Tensor, pre: torch.Tensor) -> torch.Tensor:
        """Normed input [T, D] of the sublayer; `pre` [T, S] comes from the preceding sublayer."""
        runtime = self._runtime
        return runtime.ops.hc_read_norm(streams, pre, self.norm_weight, runtime.config.rms_norm_eps, runtime.act_dtype)

    def write(self, streams: torch.Tensor, out: torch.Tensor, mixing: Mixing) -> torch.Tensor:
        """New streams [T, S, D] after the sublayer's output [T, D]."""
        return self._runtime.ops.hc_write(streams, out, mixing.post, mixing.comb)

    def _step(
        self,
        streams: torch.Tensor,
        pre: torch.Tensor,
        update: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        mixing = (self.fn, self.base, self.scale)
        return self._runtime.ops.hc_step(
            streams, pre, update, self.norm_weight, mixing, **self._options, out_dtype=self._runtime.act_dtype
        )
