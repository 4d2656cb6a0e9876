"""A 100,000-token prompt on the CPU: does it stay within the memory that the plan printed?

Writes a small random checkpoint (window-only, ratio-2 and two ratio-1 layers, the second restricted to the candidate
blocks of the first, which hold 16,384 entries as in the published model), feeds one prompt of random ids, decodes a few
tokens and compares the peak of the resident memory with the plan.

    python bench/long_context.py --tokens 100000
"""

from __future__ import annotations

import argparse
import random
import resource
import tempfile
import time
from typing import Any

from deepinfer import LLM, SamplingParams
from deepinfer.checkpoint.writer import write_random_checkpoint
from deepinfer.config.byte_size import format_byte_size

_VOCABULARY = 288
_CONFIG: dict[str, Any] = {
    "architectures": ["DeepseekV41ForCausalLM"],
    "model_type": "deepseek_v41",
    "dtype": "bfloat16",
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
    "quantization_config": {
        "quant_method": "fp8",
        "activation_scheme": "dynamic",
        "weight_block_size": [32, 32],
        "scale_fmt": "ue8m0",
        "expert_dtype": "fp4",
    },
    "text_config": {
        "model_type": "deepseek_v41_text",
        "vocab_size": _VOCABULARY,
        "hidden_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "qk_rope_head_dim": 16,
        "q_lora_rank": 32,
        "o_lora_rank": 16,
        "o_groups": 2,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "hidden_act": "silu",
        "swiglu_limit": 10.0,
        "rms_norm_eps": 1e-20,
        "max_position_embeddings": 2**20,
        "rope_theta": 10000,
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 16,
            "beta_fast": 32,
            "beta_slow": 1,
            "original_max_position_embeddings": 2**16,
        },
        "compress_rope_theta": 160000,
        "sliding_window": 64,
        "compress_ratios": [0, 2, 1, 1],
        "kv_source_layer_ids": [1, 2],
        "index_source_layer_ids": [1, 2, 3],
        "index_n_heads": 2,
        "index_head_dim": 32,
        "index_topk": 64,
        "candidate_source_layer_id": 2,
        "candidate_topk_blocks": 2048,
        "candidate_block_size": 8,
        "n_routed_experts": 8,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 64,
        "scoring_func": "sqrtsoftplus",
        "topk_method": "noaux_tc",
        "norm_topk_prob": True,
        "routed_scaling_factor": 1.5,
        "hc_mult": 2,
        "hc_sinkhorn_iters": 20,
        "hc_eps": 1e-06,
        "engram_layer_ids": [],
        "engram_max_ngram_size": 2,
        "engram_vocab_size": 97,
        "engram_n_heads": 1,
        "engram_head_dim": 32,
        "engram_pad_token_id": 2,
        "num_nextn_predict_layers": 0,
        "dspark_block_size": 1,
        "dspark_noise_token_id": 3,
        "dspark_target_layer_ids": [],
        "dspark_markov_rank": 16,
        "dspark_n_routed_experts": 4,
        "dspark_num_experts_per_tok": 2,
    },
}


def run(llm: LLM, num_tokens: int, num_decoded: int) -> tuple[float, float]:
    """Seconds, by the clock and of the processor, that the prompt and the tokens behind it took."""
    rng = random.Random(0)
    prompt = [rng.randrange(3, _VOCABULARY) for _ in range(num_tokens)]
    params = SamplingParams(temperature=0, max_tokens=num_decoded, ignore_eos=True)
    start, busy = time.perf_counter(), time.process_time()
    (output,) = llm.generate([prompt], params, use_tqdm=False)
    if output.error is not None:
        raise output.error
    return time.perf_counter() - start, time.process_time() - busy


def main() -> None:
    """Plan, run, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=100_000, help="prompt tokens")
    parser.add_argument("--decode", type=int, default=8, help="tokens generated behind it")
    parser.add_argument("--backend", default="auto", help="auto, reference or cpu")
    parser.add_argument("--step-tokens", type=int, default=512, help="tokens of a prefill step")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_random_checkpoint(_CONFIG, folder)
        length = options.tokens + options.decode
        sizes: dict[str, Any] = {
            "backend": options.backend,
            "max_model_len": length,
            "max_num_seqs": 1,
            "max_num_batched_tokens": options.step_tokens,
        }
        with LLM(folder, **sizes) as llm:
            plan = llm._runtime.worker.memory_plan
            seconds, busy = run(llm, options.tokens, options.decode)
            cost, backend = llm.stats().cost, llm._runtime.worker.backend.name
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(plan.explain())
    print(
        f"backend {backend}: {options.tokens:,} + {options.decode} tokens in {seconds:.0f} s ({busy:.0f} s of a core)"
    )
    print(f"{cost.flops:.3e} FLOPs, {cost.bytes:.3e} bytes by the estimator")
    print(f"peak {format_byte_size(peak)}, plan {format_byte_size(plan.peak_bytes)}: {peak / plan.peak_bytes - 1:+.1%}")


if __name__ == "__main__":
    main()
