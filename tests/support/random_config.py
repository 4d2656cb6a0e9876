"""Random valid V4.1 configs: other layer orders, ratios, windows, head sizes and expert counts than the bundled one."""

from __future__ import annotations

import random
from typing import Any

from tests.support.tiny_config import tiny_config

# (window-only, ratio-2, ratio-1) layers; None: drawn.
LAYOUTS = (None, None, None, (1, 0, 0), (2, 0, 0), (0, 1, 0), (0, 3, 0), (1, 2, 0), (0, 0, 1))


def random_config(seed: int) -> dict[str, Any]:
    """A config drawn from `seed`; every limit bites within about 70 tokens."""
    rng = random.Random(seed)
    num_window, num_c2, num_c1 = rng.choice(LAYOUTS) or (rng.randint(0, 2), rng.randint(0, 4), rng.randint(1, 4))
    ratios = [0] * num_window + [2] * num_c2 + [1] * num_c1
    c2_layers = list(range(num_window, num_window + num_c2))
    c1_layers = list(range(num_window + num_c2, len(ratios)))
    kv_sources = c2_layers[:1] + c1_layers[:1]
    if len(c2_layers) > 2 and rng.random() < 0.5:
        kv_sources = sorted([*kv_sources, c2_layers[2]])
    readers = [layer for layer in c2_layers + c1_layers if layer not in kv_sources]
    index_sources = sorted(kv_sources + [layer for layer in readers if rng.random() < 0.5])
    c1_index = [layer for layer in index_sources if layer in c1_layers]
    candidate = rng.choice([None, *c1_index])
    before_c1 = len(ratios) - num_c1  # Engram layers stand before the first one with ratio 1
    engram = sorted(rng.sample(range(before_c1), min(before_c1, rng.randint(0, 2))))
    heads = rng.choice([2, 4, 6])
    fields: dict[str, Any] = {
        "num_hidden_layers": len(ratios),
        "compress_ratios": ratios,
        "kv_source_layer_ids": kv_sources,
        "index_source_layer_ids": index_sources,
        "candidate_topk_blocks": rng.randint(3, 5),
        "candidate_block_size": rng.choice([2, 3, 4]),
        "index_topk": rng.randint(2, 6),
        "engram_layer_ids": engram,
        "engram_max_ngram_size": rng.choice([2, 3, 4]),
        "engram_n_heads": rng.choice([1, 2, 3]),
        "engram_head_dim": rng.choice([7, 32, 33, 50]),
        "num_attention_heads": heads,
        "hidden_size": rng.choice([64, 96, 160]),
        "q_lora_rank": rng.choice([17, 32, 45]),
        "o_lora_rank": rng.choice([1, 13, 16]),
        "o_groups": rng.choice([1, 2]),
        "head_dim": rng.choice([32, 64, 96, 160]),
        "index_head_dim": rng.choice([32, 96]),
        "qk_rope_head_dim": rng.choice([4, 8, 16]),
        "index_n_heads": rng.choice([1, 4, 5]),
        "sliding_window": rng.choice([1, 3, 8, 13]),
        "n_routed_experts": rng.choice([3, 8]),
        "num_experts_per_tok": rng.choice([1, 2, 3]),
        "moe_intermediate_size": rng.choice([32, 48, 96]),
        "hc_mult": rng.choice([1, 2, 3, 4, 5]),
        "num_nextn_predict_layers": 0,
        "dspark_target_layer_ids": [],
    }
    config = tiny_config(**fields)
    text = config["text_config"]
    text["candidate_source_layer_id"] = candidate
    if rng.random() < 0.3:
        text["rope_scaling"] = None
    return config


def random_draft_config(seed: int) -> dict[str, Any]:
    """The same with a draft model of drawn stages, block, rank and experts."""
    config, rng = random_config(seed), random.Random(seed + 10**6)
    text = config["text_config"]
    stages, layers, experts = rng.choice([1, 2, 4]), text["num_hidden_layers"], rng.choice([1, 3, 8])
    text |= {
        "num_nextn_predict_layers": stages,
        "compress_ratios": [*text["compress_ratios"], *[0] * stages],
        "dspark_block_size": rng.choice([1, 2, 5, 9]),
        "dspark_noise_token_id": rng.randrange(text["vocab_size"]),
        "dspark_target_layer_ids": rng.sample(range(layers), rng.randint(1, min(3, layers))),
        "dspark_markov_rank": rng.choice([1, 5, 16, 33]),
        "dspark_n_routed_experts": experts,
        "dspark_num_experts_per_tok": rng.randint(1, experts),
    }
    return config
