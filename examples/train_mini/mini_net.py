"""The differentiable target model over whole batches [B, T]: masks in place of caches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import torch

from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.ops import NgramHash, ngram_hash, reference
from deepinfer.text.vocabulary_map import compressed_vocabulary
from examples.train_mini.parameters import Parameters
from examples.train_mini.pieces.sinkhorn import Sinkhorn
from examples.train_mini.pieces.token_pieces import BF16, OUT

Angles = tuple[torch.Tensor, torch.Tensor]


@dataclass
class EntryState:
    """What layers behind a source share during one forward pass.

    Attributes:
        entries, index_keys: [B, N, d] and [B, N, di] of the last KV source.
        scores, visible: [B, T, N] of the last index source.
        shares: [B, T, N] attention given to the entries by the layers that used these scores; None before the first.
        blocks: [B, T, N] entries in candidate blocks.
    """

    entries: torch.Tensor | None = None
    index_keys: torch.Tensor | None = None
    scores: torch.Tensor | None = None
    visible: torch.Tensor | None = None
    shares: torch.Tensor | None = None
    blocks: torch.Tensor | None = None


class MiniNet:
    """The model while it is trained.

    Attributes:
        parameters: by name; trained in place.
        loads: tokens of each expert in the last forward pass, by the name of the router's bias.
    """

    def __init__(
        self, config: DeepSeekV41Config, parameters: Parameters, tokenizer_json: Path, pieces: SimpleNamespace
    ) -> None:
        """Args:
        config: of the model.
        parameters: on one device.
        tokenizer_json: for Engram's vocabulary.
        pieces: from `piece_table`.
        """
        self.config, self.parameters, self.pieces = config, parameters, pieces
        self.device = parameters["embed.weight"].device
        self.loads: dict[str, torch.Tensor] = {}
        mapping = compressed_vocabulary(tokenizer_json, config.vocab_size, config.engram_pad_token_id)
        self._vocabulary = torch.from_numpy(mapping).to(self.device)
        self._hashes = [self._hash(layer) for layer in config.engram_layer_ids]
        positions = config.max_position_embeddings
        plain = reference.rope_table(config.rope_theta, config.qk_rope_head_dim, None, positions)
        yarn = reference.rope_table(config.compress_rope_theta, config.qk_rope_head_dim, config.rope_scaling, positions)
        self.plain_rope = tuple(part.to(self.device) for part in plain)
        self._yarn_rope = tuple(part.to(self.device) for part in yarn)

    def angles(self, batch: int, length: int, *, yarn: bool = False, step: int = 1) -> Angles:
        """cos, sin [B * T / step, r/2] of every step-th position."""
        cos, sin = self._yarn_rope if yarn else self.plain_rope
        return cos[:length:step].repeat(batch, 1), sin[:length:step].repeat(batch, 1)

    def forward(self, ids: torch.Tensor, sparse: bool, features: bool = False) -> tuple:
        """One pass over ids int64 [B, T].

        Args:
            ids: tokens.
            sparse: attend to the entries that the indexer chooses, not to all visible ones.
            features: also return what the draft model reads.

        Returns:
            Hidden states [B*T, D] before the last norm, the indexer's loss, features [B*T, D * layers] or None.
        """
        config, batch = self.config, ids.shape[0]
        self.loads = {}
        embedded = self.parameters["embed.weight"].index_select(0, ids.flatten()).to(BF16)
        streams, pre = self.first_streams(embedded)
        rows = self._ngram_rows(ids)
        state, index_loss, seen = EntryState(), torch.zeros((), device=self.device), []
        for layer in range(config.num_hidden_layers):
            if layer in config.engram_layer_ids:
                streams = self._engram(layer, streams, rows[config.engram_layer_ids.index(layer)])
            if features and layer in config.dspark_target_layer_ids:
                seen.append(streams.float().mean(1).to(BF16))
            if layer in config.index_source_layer_ids and state.shares is not None:
                index_loss = index_loss + self._index_loss(state)
            streams, pre = self._layer(layer, streams, pre, (batch, sparse, state))
        if state.shares is not None:
            index_loss = index_loss + self._index_loss(state)
        hidden = self.pieces.collapse(streams, pre)
        return hidden, index_loss, torch.cat(seen, -1) if features else None

    def loss(
        self, ids: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor, sparse: bool
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """ids, labels, weights [B, T] -> cross-entropy, the indexer's loss, every row's loss [B*T]."""
        hidden, index_loss, _ = self.forward(ids, sparse)
        head = self.parameters["norm.weight"], self.parameters["head.weight"]
        loss, rows = self.pieces.head_loss(hidden, *head, labels.flatten(), weights.flatten())
        return loss, index_loss, rows

    def first_streams(self, embedded: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """embedded [N, D] -> equal streams [N, S, D], and weights [N, S] that read the first."""
        count = self.config.hc_mult
        pre = torch.zeros(embedded.shape[0], count, device=self.device)
        pre[:, 0] = 1
        return embedded[:, None].expand(-1, count, -1).contiguous(), pre

    def begin(self, prefix: str, streams: torch.Tensor, pre: torch.Tensor) -> tuple:
        """The input [N, D] of a block's attention, and the weights by which its output is written: pre, post, comb."""
        mixing = self._mix(f"{prefix}hc_attn_", streams)
        return self._read(streams, pre, f"{prefix}attn_norm.weight"), mixing

    def queries(self, prefix: str, x: torch.Tensor, angles: Angles) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Low-rank queries, queries and window keys of a block."""
        names = ("wq_a", "q_norm", "wq_b", "wkv", "kv_norm")
        matrices = (self.parameters[f"{prefix}attn.{name}.weight"] for name in names)
        return self.pieces.attention_inputs(x, *matrices, *angles, self.config.num_attention_heads)

    def finish(
        self, prefix: str, streams: torch.Tensor, heads: torch.Tensor, angles: Angles, mixing: tuple
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the attention's output and run the experts: streams, and the weights that the next block reads by."""
        wo_a, wo_b = (self.parameters[f"{prefix}attn.{name}.weight"] for name in ("wo_a", "wo_b"))
        out = self.pieces.attention_output(heads, wo_a, wo_b, *angles, self.config.o_groups)
        pre, post, comb = mixing
        streams = self.pieces.write(streams, out, post, comb)
        next_pre, post, comb = self._mix(f"{prefix}hc_ffn_", streams)
        x = self._read(streams, pre, f"{prefix}ffn_norm.weight")
        out = self._experts(f"{prefix}ffn.", x)
        return self.pieces.write(streams, out, post, comb), next_pre

    def _layer(self, layer: int, streams: torch.Tensor, pre: torch.Tensor, step: tuple) -> tuple:
        config, prefix = self.config, f"layers.{layer}."
        batch, sparse, state = step
        length, ratio = streams.shape[0] // batch, config.compress_ratios[layer]
        x, mixing = self.begin(prefix, streams, pre)
        angles = self.angles(batch, length, yarn=ratio > 0)
        low, q, keys = self.queries(prefix, x, angles)
        sink = self.parameters[f"{prefix}attn.attn_sink"]
        if ratio == 0:
            heads = self.pieces.attend_window(q, keys, sink, batch, config.sliding_window)
            return self.finish(prefix, streams, heads, angles, mixing)
        if layer in config.kv_source_layer_ids:
            self._compress(layer, x, batch, state)
        if layer in config.index_source_layer_ids:
            self._score(layer, (x, low), angles, state)
            state.visible, state.shares = self._choose(layer, state, sparse), None
        heads, shares = self.pieces.attend_both(q, keys, state.entries, state.visible, sink, config.sliding_window)
        state.shares = shares if state.shares is None else state.shares + shares
        return self.finish(prefix, streams, heads, angles, mixing)

    def _compress(self, layer: int, x: torch.Tensor, batch: int, state: EntryState) -> None:
        attn, ratio = f"layers.{layer}.attn.", self.config.compress_ratios[layer]
        names = ("compressor.wkv", "compressor.wgate", "compressor.norm", "indexer.wk", "indexer.k_norm")
        matrices = (self.parameters.get(f"{attn}{name}.weight") for name in names)
        angles = self.angles(batch, x.shape[0] // batch, yarn=True, step=ratio)
        entries, index_keys = self.pieces.compress(x, *matrices, *angles, ratio)
        state.entries, state.index_keys = entries.unflatten(0, (batch, -1)), index_keys.unflatten(0, (batch, -1))

    def _score(self, layer: int, inputs: tuple, angles: Angles, state: EntryState) -> None:
        indexer = f"layers.{layer}.attn.indexer."
        matrices = (self.parameters[f"{indexer}{name}.weight"] for name in ("wq_b", "weights_proj"))
        state.scores = self.pieces.index_scores(
            *inputs, *matrices, state.index_keys, *angles, self.config.index_n_heads
        )

    def _choose(self, layer: int, state: EntryState, sparse: bool) -> torch.Tensor:
        """bool [B, T, N]: the entries that each token attends to."""
        config, scores = self.config, state.scores.detach()
        length, count = scores.shape[1:]
        ready = (torch.arange(length, device=self.device) + 1) // config.compress_ratios[layer]
        is_open = (torch.arange(count, device=self.device)[None] < ready[:, None])[None]
        if not sparse:
            return is_open.expand(scores.shape).contiguous()
        scores = scores.masked_fill(~is_open, OUT)
        source = config.candidate_source_layer_id
        if layer == source:
            state.blocks = self._candidates(scores, ready)
        elif source is not None and source < layer:
            scores = scores.masked_fill(~state.blocks, OUT)
        best = scores.topk(min(config.index_topk, count), -1).indices
        return torch.zeros_like(scores, dtype=torch.bool).scatter_(-1, best, True) & (scores > OUT / 2)

    def _candidates(self, scores: torch.Tensor, ready: torch.Tensor) -> torch.Tensor:
        """bool [B, T, N]: entries of the best blocks and of the newest."""
        size = self.config.candidate_block_size
        blocks = scores.unflatten(-1, (-1, size)).amax(-1)
        newest = ((ready - 1) // size)[:, None]
        blocks = blocks.masked_fill(torch.arange(blocks.shape[-1], device=self.device)[None] == newest, -OUT)
        best = blocks.topk(min(self.config.candidate_topk_blocks, blocks.shape[-1]), -1).indices
        return torch.zeros_like(blocks, dtype=torch.bool).scatter_(-1, best, True).repeat_interleave(size, -1)

    def _index_loss(self, state: EntryState) -> torch.Tensor:
        return self.pieces.index_loss(state.scores, state.shares, state.visible)

    def _mix(self, prefix: str, streams: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        weights = (self.parameters[f"{prefix}{name}"] for name in ("fn", "base", "scale"))
        pre, post, logits = self.pieces.mix(streams, *weights, self.config.hc_eps)
        return pre, post, Sinkhorn.apply(logits, self.config.hc_sinkhorn_iters, self.config.hc_eps)

    def _read(self, streams: torch.Tensor, pre: torch.Tensor, gain: str) -> torch.Tensor:
        return self.pieces.norm_rows(self.pieces.collapse(streams, pre), self.parameters[gain])

    def _experts(self, prefix: str, x: torch.Tensor) -> torch.Tensor:
        config, own = self.config, self.parameters
        gate, bias = own[f"{prefix}gate.weight"], own[f"{prefix}gate.bias"]
        routed = tuple(own[f"{prefix}experts.{name}"] for name in ("w1", "w3", "w2"))
        shared = tuple(own[f"{prefix}shared_experts.{name}.weight"] for name in ("w1", "w3", "w2"))
        scale, limit = config.routed_scaling_factor, config.swiglu_limit
        out, load = self.pieces.experts(x, gate, bias, routed, shared, scale, limit)
        self.loads[f"{prefix}gate.bias"] = load
        return out

    def _engram(self, layer: int, streams: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        prefix, own = f"layers.{layer}.engram.", self.parameters
        found = own[f"{prefix}embed.weight"].index_select(0, rows.flatten()).reshape(*rows.shape, -1)
        weights = (own[f"{prefix}{name}"] for name in ("wkv.weight", "q_weight", "k_weight"))
        return self.pieces.engram(streams, found, *weights)

    def _ngram_rows(self, ids: torch.Tensor) -> list[torch.Tensor]:
        """Per Engram layer int64 [B*T, R], the rows that a token looks up."""
        compressed = self._vocabulary[ids]
        pad = self._vocabulary[self.config.engram_pad_token_id]
        columns = [compressed]
        for back in range(1, self.config.engram_max_ngram_size):
            columns.append(torch.cat((pad.expand(ids.shape[0], back), compressed[:, :-back]), 1))
        ngrams = torch.stack(columns, -1).flatten(0, 1)
        return [reference.ngram_rows(ngrams, constants) for constants in self._hashes]

    def _hash(self, layer: int) -> NgramHash:
        config = self.config
        constants = ngram_hash(
            layer,
            layer_ids=config.engram_layer_ids,
            vocab_size=config.engram_vocab_size,
            compressed_vocab_size=config.engram_compressed_vocab_size,
            max_ngram_size=config.engram_max_ngram_size,
            num_heads=config.engram_n_heads,
        )
        return constants.to(self.device)
