"""Engram: hashed n-gram memory added to the residual streams."""

from __future__ import annotations

import torch

from deepinfer.distributed.row_shards import RowShards
from deepinfer.models.deepseek_v41.runtime import ModelRuntime
from deepinfer.models.deepseek_v41.step_context import StepContext
from deepinfer.models.deepseek_v41.weight_reader import WeightReader
from deepinfer.ops import ngram_hash


class Engram:
    """One layer's table, projection and gate (spec/model.md 9). The table stays memory-mapped and is read by row, or
    its rows are spread over the memory of several ranks (`runtime.groups`).

    Looked-up rows pass Q8/32 again before the projection, like every input of an FP8 matrix. Where the
    head width is a multiple of 32, the groups are those of the table and that is exact (above the quantizer's floor).
    """

    def __init__(
        self, runtime: ModelRuntime, weights: WeightReader, layer_id: int, compressed_vocab: torch.Tensor
    ) -> None:
        config = runtime.config
        self._runtime = runtime
        self._name = f"layers.{layer_id}.engram"
        self._compressed_vocab = compressed_vocab
        self.hash = ngram_hash(
            layer_id,
            layer_ids=config.engram_layer_ids,
            vocab_size=config.engram_vocab_size,
            compressed_vocab_size=config.engram_compressed_vocab_size,
            max_ngram_size=config.engram_max_ngram_size,
            num_heads=config.engram_n_heads,
        ).to(weights.device)
        table = weights.table("embed")
        self._shards = None if runtime.groups is None else runtime.groups.row_shards(table[0].shape[0])
        self.table, self.table_scales = (
            table if self._shards is None else self._share_out(self._shards, table, weights.device.type == "cuda")
        )
        self.wkv = weights.fp8("wkv")
        self.q_weight = weights.plain("q_weight")
        self.k_weight = weights.plain("k_weight")

    def __call__(self, streams: torch.Tensor, ctx: StepContext) -> torch.Tensor:
        """Streams [T, S, D] with the gated memory added."""
        config, ops, act = self._runtime.config, self._runtime.ops, self._runtime.act_dtype
        rows = ops.ngram_rows(ctx.compressed_ngrams(self._compressed_vocab, config.engram_pad_token_id), self.hash)
        ctx.probe.record(f"{self._name}.rows", rows)
        if self._shards is None:
            memory = self._look_up(rows)
        elif ctx.is_real is not None:
            memory = self._shards.static.run(torch.where(ctx.is_real[:, None], rows, -1), self._look_up)
        else:
            small, *table = self._fetch(self._shards, rows)
            memory = ops.engram_lookup(small, *table).to(act)
        projected = ops.quantized_linear(memory, self.wkv, quantize=self._runtime.quantize, out_dtype=act)
        num_streams, dim = config.hc_mult, config.hidden_size
        keys = projected[:, : num_streams * dim].view(-1, num_streams, dim)
        value = projected[:, num_streams * dim :]
        return ops.engram_gate(streams, keys, value, self.q_weight, self.k_weight, eps=config.rms_norm_eps)

    def take_part(self) -> None:
        """Give other ranks the rows they ask for, in a step of which this rank has no rows."""
        if self._shards is not None:
            self._shards.fetch(torch.empty(0, dtype=torch.int64))

    def _look_up(self, rows: torch.Tensor) -> torch.Tensor:
        """Values [T, R * d] in the activation dtype of rows [T, R] of the table here; zeros for -1."""
        return self._runtime.ops.engram_lookup(rows, self.table, self.table_scales).to(self._runtime.act_dtype)

    @staticmethod
    def _share_out(
        shards: RowShards, table: tuple[torch.Tensor, torch.Tensor], is_cuda: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Copies of this rank's codes and scales in memory, where a GPU can read them; one row where it has none."""
        own, copies = shards.own, []
        num_own = own.stop - own.start
        for part in table:
            copy = torch.zeros((max(num_own, 1), part.shape[1]), dtype=part.dtype, pin_memory=is_cuda)
            copies.append(copy)
            copy[:num_own] = part[own]
        codes, scales = copies
        shards.put(codes[:num_own].view(torch.uint8), scales[:num_own])
        return codes, scales

    def _fetch(self, shards: RowShards, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Rows [T, R] of the whole table as (rows of a small table, its codes, its scales)."""
        asked = rows >= 0
        numbers, places = torch.unique(rows[asked].cpu(), return_inverse=True)
        fetched = shards.fetch(numbers).to(rows.device)
        codes, scales = fetched.split((self.table.shape[1], self.table_scales.shape[1]), dim=1)
        small = torch.full_like(rows, -1)
        small[asked] = places.to(rows.device)
        return small, codes.contiguous().view(self.table.dtype), scales.contiguous()
