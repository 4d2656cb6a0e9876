"""The config.json of the bundled model, for any tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tokenizers import Tokenizer

from deepinfer.checkpoint.writer import complete_engram_fields

TEXT: Final[dict[str, Any]] = {
    "model_type": "deepseek_v41_text",
    "hidden_size": 256,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 1,
    "head_dim": 128,
    "qk_rope_head_dim": 32,
    "q_lora_rank": 128,
    "o_lora_rank": 64,
    "o_groups": 4,
    "attention_bias": False,
    "attention_dropout": 0.0,
    "hidden_act": "silu",
    "swiglu_limit": 10.0,
    "rms_norm_eps": 1e-20,
    "initializer_range": 0.02,
    "use_cache": True,
    "tie_word_embeddings": False,
    "max_position_embeddings": 8192,
    "rope_theta": 10000,
    "rope_scaling": {
        "rope_type": "yarn",
        "factor": 16,
        "beta_fast": 32,
        "beta_slow": 1,
        "original_max_position_embeddings": 512,
    },
    "compress_rope_theta": 160000,
    "sliding_window": 64,
    "compress_ratios": [0, 0, 2, 2, 2, 1, 1, 1, 0, 0],
    "kv_source_layer_ids": [2, 5],
    "index_source_layer_ids": [2, 5, 7],
    "index_n_heads": 4,
    "index_head_dim": 64,
    "index_topk": 32,
    "candidate_source_layer_id": 5,
    "candidate_topk_blocks": 16,
    "candidate_block_size": 8,
    "n_routed_experts": 16,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 192,
    "scoring_func": "sqrtsoftplus",
    "topk_method": "noaux_tc",
    "norm_topk_prob": True,
    "routed_scaling_factor": 1.5,
    "hc_mult": 4,
    "hc_sinkhorn_iters": 20,
    "hc_eps": 1e-6,
    "engram_layer_ids": [1, 3],
    "engram_max_ngram_size": 3,
    "engram_vocab_size": 4099,
    "engram_n_heads": 2,
    "engram_head_dim": 32,
    "engram_pad_token_id": 2,
    "num_nextn_predict_layers": 2,
    "dspark_block_size": 5,
    "dspark_target_layer_ids": [5, 6, 7],
    "dspark_markov_rank": 32,
    "dspark_n_routed_experts": 8,
    "dspark_num_experts_per_tok": 2,
}


def mini_config(tokenizer_json: Path, **changes: Any) -> dict[str, Any]:
    """The nested config of a model with the vocabulary of a tokenizer.

    Args:
        tokenizer_json: made by `train_tokenizer`; the sizes of Engram follow from it.
        changes: other values for fields of "text_config".
    """
    tokenizer = Tokenizer.from_file(str(tokenizer_json))
    noise = tokenizer.token_to_id("<｜dspark▁noise｜>")
    text = {**TEXT, "vocab_size": tokenizer.get_vocab_size(), "dspark_noise_token_id": noise, **changes}
    quantization = {
        "quant_method": "fp8",
        "activation_scheme": "dynamic",
        "weight_block_size": [32, 32],
        "scale_fmt": "ue8m0",
        "expert_dtype": "fp4",
    }
    values = {
        "architectures": ["DeepseekV41ForCausalLM"],
        "model_type": "deepseek_v41",
        "dtype": "bfloat16",
        "transformers_version": "5.6.0",
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 2,
        "image_token_id": tokenizer.token_to_id("<｜image｜>"),
        "quantization_config": quantization,
        "text_config": text,
    }
    return complete_engram_fields(values, tokenizer_json)
