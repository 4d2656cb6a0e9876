"""Kernel sizes of a model."""

from __future__ import annotations

from deepinfer.config.model_config import DeepSeekV41Config
from tilelang_ops.jit.model_sizes import ModelSizes


def model_sizes(
    config: DeepSeekV41Config, block_size: int, num_drafts: int, expert_places: tuple[int, ...] = ()
) -> ModelSizes:
    """What kernels of this model are compiled for.

    Args:
        block_size: original tokens per cache block.
        num_drafts: draft rows behind a token; 0 without drafts.
        expert_places: numbers of places for experts that one rank may have in a layer, where ranks share them.
    """
    return ModelSizes(
        hidden_size=config.hidden_size,
        vocab_size=config.vocab_size,
        num_heads=config.num_attention_heads,
        head_dim=config.head_dim,
        rope_dim=config.qk_rope_head_dim,
        q_lora_rank=config.q_lora_rank,
        o_lora_rank=config.o_lora_rank,
        o_groups=config.o_groups,
        block_size=block_size,
        num_streams=config.hc_mult,
        sinkhorn_iters=config.hc_sinkhorn_iters,
        num_experts=config.n_routed_experts,
        num_experts_per_tok=config.num_experts_per_tok,
        moe_intermediate_size=config.moe_intermediate_size,
        index_n_heads=config.index_n_heads,
        index_head_dim=config.index_head_dim,
        candidate_block_size=config.candidate_block_size,
        engram_max_ngram_size=config.engram_max_ngram_size if config.has_engram else 0,
        engram_n_heads=config.engram_n_heads if config.has_engram else 0,
        engram_head_dim=config.engram_head_dim if config.has_engram else 0,
        num_drafts=num_drafts,
        draft_num_experts=config.dspark_n_routed_experts if num_drafts else 0,
        draft_num_experts_per_tok=config.dspark_num_experts_per_tok if num_drafts else 0,
        markov_rank=config.dspark_markov_rank if num_drafts else 0,
        num_draft_features=len(config.dspark_target_layer_ids) if num_drafts else 0,
        expert_places=expert_places,
    )
