"""Initial values of all parameters, under the checkpoint's names; a matrix of all experts is one tensor."""

from __future__ import annotations

import torch

from deepinfer.config.model_config import DeepSeekV41Config

Parameters = dict[str, torch.Tensor]


def initial_parameters(config: DeepSeekV41Config, seed: int = 1) -> Parameters:
    """float32 values on the CPU; an expert matrix is ``...experts.w1`` [E, out, in]."""
    maker = _Maker(config, seed)
    size, vocab = config.hidden_size, config.vocab_size
    maker.normal("embed.weight", (vocab, size), 0.7)
    maker.normal("head.weight", (vocab, size), 0.02)
    maker.ones("norm.weight", size)
    for layer in range(config.num_hidden_layers):
        maker.block(f"layers.{layer}.", config.n_routed_experts, layer)
        maker.compressed_attention(layer)
        if layer in config.engram_layer_ids:
            maker.engram(layer)
    for stage in range(config.num_nextn_predict_layers):
        maker.block(f"mtp.{stage}.", config.dspark_n_routed_experts, stage)
    if config.num_nextn_predict_layers:
        maker.draft_ends()
    return maker.parameters


class _Maker:
    """Draws parameters; every random number follows from the seed and the order of the calls."""

    def __init__(self, config: DeepSeekV41Config, seed: int) -> None:
        self.parameters: Parameters = {}
        self._config = config
        self._generator = torch.Generator().manual_seed(seed)

    def normal(self, name: str, shape: tuple[int, ...], std: float | None = None) -> None:
        """Normal values; `std` is 1 / sqrt(last dimension) unless given."""
        values = torch.randn(*shape, generator=self._generator)
        self.parameters[name] = values * (shape[-1] ** -0.5 if std is None else std)

    def ones(self, name: str, *shape: int) -> None:
        self.parameters[name] = torch.ones(*shape)

    def zeros(self, name: str, *shape: int) -> None:
        self.parameters[name] = torch.zeros(*shape)

    def block(self, prefix: str, num_experts: int, depth: int) -> None:
        """What a layer and a draft stage have."""
        config, attn, ffn = self._config, f"{prefix}attn.", f"{prefix}ffn."
        size, width = config.hidden_size, config.num_attention_heads * config.head_dim
        for number, part in enumerate(("attn", "ffn")):
            self.ones(f"{prefix}{part}_norm.weight", size)
            self._hyper_connection(f"{prefix}hc_{part}_", 2 * depth + number)
        self.normal(f"{attn}wq_a.weight", (config.q_lora_rank, size))
        self.ones(f"{attn}q_norm.weight", config.q_lora_rank)
        self.normal(f"{attn}wq_b.weight", (width, config.q_lora_rank))
        self.normal(f"{attn}wkv.weight", (config.head_dim, size))
        self.ones(f"{attn}kv_norm.weight", config.head_dim)
        self.zeros(f"{attn}attn_sink", config.num_attention_heads)
        latent = config.o_groups * config.o_lora_rank
        self.normal(f"{attn}wo_a.weight", (latent, width // config.o_groups))
        self.normal(f"{attn}wo_b.weight", (size, latent), 0.1 * latent**-0.5)
        self.normal(f"{ffn}gate.weight", (num_experts, size))
        self.zeros(f"{ffn}gate.bias", num_experts)
        inner = config.moe_intermediate_size
        for name, shape, gain in (("w1", (inner, size), 1.0), ("w3", (inner, size), 1.0), ("w2", (size, inner), 0.1)):
            std = gain * shape[-1] ** -0.5
            self.normal(f"{ffn}experts.{name}", (num_experts, *shape), std)
            self.normal(f"{ffn}shared_experts.{name}.weight", shape, std)

    def compressed_attention(self, layer: int) -> None:
        """Compressor and indexer of a layer that owns them."""
        config, attn = self._config, f"layers.{layer}.attn."
        if layer in config.kv_source_layer_ids:
            shape = (config.head_dim, config.hidden_size)
            self.normal(f"{attn}compressor.wkv.weight", shape)
            self.ones(f"{attn}compressor.norm.weight", config.head_dim)
            if config.compress_ratios[layer] > 1:
                self.normal(f"{attn}compressor.wgate.weight", shape)
            self.normal(f"{attn}indexer.wk.weight", (config.index_head_dim, config.head_dim))
            self.ones(f"{attn}indexer.k_norm.weight", config.index_head_dim)
        if layer in config.index_source_layer_ids:
            self.normal(
                f"{attn}indexer.wq_b.weight", (config.index_n_heads * config.index_head_dim, config.q_lora_rank)
            )
            self.normal(f"{attn}indexer.weights_proj.weight", (config.index_n_heads, config.hidden_size))

    def engram(self, layer: int) -> None:
        config, prefix = self._config, f"layers.{layer}.engram."
        rows = config.engram_num_embeddings[config.engram_layer_ids.index(layer)]
        width = (config.engram_max_ngram_size - 1) * config.engram_n_heads * config.engram_head_dim
        self.normal(f"{prefix}embed.weight", (rows, config.engram_head_dim), 0.3)
        self.normal(f"{prefix}wkv.weight", ((config.hc_mult + 1) * config.hidden_size, width))
        self.ones(f"{prefix}q_weight", config.hc_mult, config.hidden_size)
        self.ones(f"{prefix}k_weight", config.hc_mult, config.hidden_size)

    def draft_ends(self) -> None:
        """What the draft model has before its first and behind its last stage."""
        config, last = self._config, f"mtp.{self._config.num_nextn_predict_layers - 1}."
        size, rank = config.hidden_size, config.dspark_markov_rank
        self.normal("mtp.0.main_proj.weight", (size, size * len(config.dspark_target_layer_ids)))
        self.ones("mtp.0.main_norm.weight", size)
        self.ones(f"{last}norm.weight", size)
        self.normal(f"{last}markov_head.embed.weight", (config.vocab_size, rank), 0.3)
        self.zeros(f"{last}markov_head.head.weight", config.vocab_size, rank)
        self.zeros(f"{last}confidence_head.proj.weight", 1, size + rank)

    def _hyper_connection(self, prefix: str, depth: int) -> None:
        """Sublayers read different streams at first, and hardly mix them."""
        count, size = self._config.hc_mult, self._config.hidden_size
        mixes = count * (count + 2)
        self.normal(f"{prefix}fn", (mixes, count * size), 0.5 * (count * size) ** -0.5)
        self.normal(f"{prefix}base", (mixes,), 0.2)
        base = self.parameters[f"{prefix}base"]
        base[:count] -= 1.1
        base[depth % count] += 1.2
        base[2 * count :] += 4.0 * torch.eye(count).flatten()
        self.parameters[f"{prefix}scale"] = torch.full((3,), 0.1)
