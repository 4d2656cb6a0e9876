"""A small V4.1 config in which every limit bites within 70 tokens (the T-RND layout of the case list)."""

import copy
from typing import Any

_QUANTIZATION = {
    "quant_method": "fp8",
    "activation_scheme": "dynamic",
    "weight_block_size": [32, 32],
    "scale_fmt": "ue8m0",
    "expert_dtype": "fp4",
}
_TEXT = {
    "model_type": "deepseek_v41_text",
    "vocab_size": 288,
    "hidden_size": 64,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "qk_rope_head_dim": 8,
    "q_lora_rank": 32,
    "o_lora_rank": 16,
    "o_groups": 2,
    "attention_bias": False,
    "attention_dropout": 0.0,
    "hidden_act": "silu",
    "swiglu_limit": 10.0,
    "rms_norm_eps": 1e-20,
    "max_position_embeddings": 512,
    "rope_theta": 10000,
    "rope_scaling": {
        "rope_type": "yarn",
        "factor": 16,
        "beta_fast": 32,
        "beta_slow": 1,
        "original_max_position_embeddings": 64,
    },
    "compress_rope_theta": 160000,
    "sliding_window": 8,
    "compress_ratios": [0, 0, 2, 2, 2, 1, 1, 1, 0, 0, 0],
    "kv_source_layer_ids": [2, 5],
    "index_source_layer_ids": [2, 5, 7],
    "index_n_heads": 4,
    "index_head_dim": 32,
    "index_topk": 4,
    "candidate_source_layer_id": 5,
    "candidate_topk_blocks": 4,
    "candidate_block_size": 2,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 48,
    "scoring_func": "sqrtsoftplus",
    "topk_method": "noaux_tc",
    "norm_topk_prob": True,
    "routed_scaling_factor": 1.5,
    "hc_mult": 4,
    "hc_sinkhorn_iters": 20,
    "hc_eps": 1e-06,
    "engram_layer_ids": [1, 3],
    "engram_max_ngram_size": 4,
    "engram_vocab_size": 97,
    "engram_n_heads": 2,
    "engram_head_dim": 32,
    "engram_pad_token_id": 2,
    "num_nextn_predict_layers": 3,
    "dspark_block_size": 3,
    "dspark_noise_token_id": 287,
    "dspark_target_layer_ids": [5, 6, 7],
    "dspark_markov_rank": 16,
    "dspark_n_routed_experts": 4,
    "dspark_num_experts_per_tok": 2,
}
_ROOT = {
    "architectures": ["DeepseekV41ForCausalLM"],
    "model_type": "deepseek_v41",
    "dtype": "bfloat16",
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
}


def tiny_config(**text_fields: Any) -> dict[str, Any]:
    """A fresh nested config; keyword arguments replace ``text_config`` fields (None removes one)."""
    text = copy.deepcopy(_TEXT) | text_fields
    text = {key: value for key, value in text.items() if value is not None}
    return {**_ROOT, "quantization_config": dict(_QUANTIZATION), "text_config": text}
