"""What the native model has to know of the checkpoint's config."""

from __future__ import annotations

import torch

from deepinfer._C import cpu
from deepinfer.config.layer_plan import LayerPlan
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.models.deepseek_v41.runtime import ModelRuntime

_SAME_NAMES = (
    *(
        "vocab_size",
        "hidden_size",
        "head_dim",
        "q_lora_rank",
        "o_lora_rank",
        "o_groups",
        "softmax_scale",
        "index_scale",
    ),
    *("index_topk", "candidate_block_size", "swiglu_limit", "hc_eps"),
)
_OTHER_NAMES = {
    "num_streams": "hc_mult",
    "sinkhorn_iters": "hc_sinkhorn_iters",
    "norm_eps": "rms_norm_eps",
    "num_heads": "num_attention_heads",
    "rope_dim": "qk_rope_head_dim",
    "window": "sliding_window",
    "index_heads": "index_n_heads",
    "index_dim": "index_head_dim",
    "candidate_blocks": "candidate_topk_blocks",
    "num_experts": "n_routed_experts",
    "num_picked": "num_experts_per_tok",
    "intermediate_size": "moe_intermediate_size",
    "normalizes_weights": "norm_topk_prob",
    "routed_scaling": "routed_scaling_factor",
    "num_draft_stages": "num_nextn_predict_layers",
    "num_draft_experts": "dspark_n_routed_experts",
    "num_draft_picked": "dspark_num_experts_per_tok",
    "markov_rank": "dspark_markov_rank",
    "noise_token_id": "dspark_noise_token_id",
}
_NONE = -1


def native_config(runtime: ModelRuntime, compressed_vocab: torch.Tensor | None) -> cpu.ModelConfig:
    """The native form of a model's static surroundings.

    Args:
        runtime: config and numerics.
        compressed_vocab: int64 [vocab_size] Engram token map; None without Engram layers.
    """
    config, native = runtime.config, cpu.ModelConfig()
    for name in _SAME_NAMES:
        setattr(native, name, getattr(config, name))
    for name, published in _OTHER_NAMES.items():
        setattr(native, name, getattr(config, published))
    if compressed_vocab is not None:
        native.num_ngrams = config.engram_max_ngram_size
        native.engram_heads = config.engram_n_heads
        native.engram_dim = config.engram_head_dim
        native.engram_scale = config.hidden_size**-0.5
        native.ngram_pad = int(compressed_vocab[config.engram_pad_token_id])
    native.max_positions = runtime.max_positions
    native.rounds_bf16 = runtime.numerics.low_precision
    native.quantizes = runtime.quantize
    native.yoco = runtime.yoco_mode
    native.layers = [_layer_role(plan, config) for plan in config.layer_plans]
    return native


def _layer_role(plan: LayerPlan, config: DeepSeekV41Config) -> cpu.LayerRole:
    role, targets = cpu.LayerRole(), config.dspark_target_layer_ids
    role.ratio = plan.ratio
    role.kv_source = _NONE if plan.kv_source is None else plan.kv_source
    role.index_source = _NONE if plan.index_source is None else plan.index_source
    role.owns_kv = plan.owns_kv
    role.owns_index = plan.owns_index
    role.is_candidate_source = plan.is_candidate_source
    role.uses_candidates = plan.uses_candidates
    role.has_engram = plan.engram_index is not None
    role.is_boundary = plan.layer_id == config.n_prefill_layer
    role.draft_target = targets.index(plan.layer_id) if plan.layer_id in targets else _NONE
    return role
