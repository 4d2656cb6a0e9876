"""Engram: hashed n-gram memory added to the residual streams."""

from __future__ import annotations

import torch

from deepinfer.models.deepseek_v41.runtime import ModelRuntime
from deepinfer.models.deepseek_v41.step_context import StepContext
from deepinfer.models.deepseek_v41.weight_reader import WeightReader
from deepinfer.ops import ngram_hash


class Engram:
    """One layer's table, projection and gate (spec/model.md 9). The table stays memory-mapped and is read by row.

    Looked-up rows pass Q8/32 again before the projection, like every input of an FP8 matrix (decisions 1). Where the
    head width is a multiple of 32, the groups are those of the table and that is exact (above the quantizer's floor).
    """

    def __init__(
        self, runtime: ModelRuntime, weights: WeightReader, layer_id: int, compressed_vocab: torch.Tensor
    ) -> None:
        config = runtime.config
        self._runtime = runtime
        self._name = f"layers.{layer_id}.engram"
        self._compressed_vocab = compressed_vocab
        self._pad = compressed_vocab[config.engram_pad_token_id]
        self.hash = ngram_hash(
            layer_id,
            layer_ids=config.engram_layer_ids,
            vocab_size=config.engram_vocab_size,
            compressed_vocab_size=config.engram_compressed_vocab_size,
            max_ngram_size=config.engram_max_ngram_size,
            num_heads=config.engram_n_heads,
        ).to(weights.device)
        self.table, self.table_scales = weights.table("embed")
        self.wkv = weights.fp8("wkv")
        self.q_weight = weights.plain("q_weight")
        self.k_weight = weights.plain("k_weight")

    def __call__(self, streams: torch.Tensor, ctx: StepContext) -> torch.Tensor:
        """Streams [T, S, D] with the gated memory added."""
        config, ops, act = self._runtime.config, self._runtime.ops, self._runtime.act_dtype
        ids = ctx.batch.ngram_ids
        ngram = torch.where(ids >= 0, self._compressed_vocab[ids.clamp(min=0)], self._pad)
        rows = ops.ngram_rows(ngram, self.hash)
        ctx.probe.record(f"{self._name}.rows", rows)
        memory = ops.engram_lookup(rows, self.table, self.table_scales)
        projected = ops.quantized_linear(memory.to(act), self.wkv, quantize=self._runtime.quantize, out_dtype=act)
        num_streams, dim = config.hc_mult, config.hidden_size
        keys = projected[:, : num_streams * dim].view(-1, num_streams, dim)
        value = projected[:, num_streams * dim :]
        return ops.engram_gate(streams, keys, value, self.q_weight, self.k_weight, eps=config.rms_norm_eps)
