"""Final norm and output projection."""

from __future__ import annotations

import torch

from deepinfer.models.deepseek_v41.runtime import ModelRuntime
from deepinfer.models.deepseek_v41.weight_reader import WeightReader


class Head:
    """Collapses the streams of wanted rows and gives their logits (spec/model.md 10)."""

    def __init__(self, runtime: ModelRuntime, weights: WeightReader, embedding: torch.Tensor) -> None:
        self._runtime = runtime
        self.norm_weight = weights.plain("norm.weight")
        self.weight = embedding if runtime.config.tie_word_embeddings else weights.plain("head.weight")

    def hidden(self, streams: torch.Tensor, pre: torch.Tensor) -> torch.Tensor:
        """Normed hidden state [L, D] of rows with streams [L, S, D] and read weights pre [L, S]."""
        runtime = self._runtime
        return runtime.ops.hc_read_norm(streams, pre, self.norm_weight, runtime.config.rms_norm_eps, runtime.act_dtype)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """float32 [L, vocab] from hidden [L, D]."""
        return self._runtime.ops.linear(hidden, self.weight, torch.float32)
