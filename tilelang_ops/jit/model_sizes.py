"""The sizes of a model that kernels are compiled for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelSizes:
    """Compile-time sizes. All are element counts; names are those of the checkpoint's config where it has them.

    `expert_places` has the numbers of places for experts that one rank may have in a layer, or in a draft stage, where
    ranks share the experts; else it is empty.
    """

    hidden_size: int
    vocab_size: int
    num_heads: int
    head_dim: int
    rope_dim: int
    q_lora_rank: int
    o_lora_rank: int
    o_groups: int
    block_size: int
    num_streams: int
    sinkhorn_iters: int
    num_experts: int
    num_experts_per_tok: int
    moe_intermediate_size: int
    index_n_heads: int
    index_head_dim: int
    candidate_block_size: int
    engram_max_ngram_size: int
    engram_n_heads: int
    engram_head_dim: int
    num_drafts: int
    draft_num_experts: int
    draft_num_experts_per_tok: int
    markov_rank: int
    num_draft_features: int
    expert_places: tuple[int, ...] = ()
