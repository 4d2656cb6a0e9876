"""A slice of V4.1-Flash: true layer shapes, eight layers of all kinds, shortened Engram tables, random weights."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from deepinfer.checkpoint.random_tokenizer import write_random_tokenizer
from deepinfer.config.engram_primes import engram_primes
from deepinfer.text.vocabulary_map import compressed_vocabulary

CHANGES: dict[str, Any] = {  # of the published text config
    "num_hidden_layers": 8,
    "compress_ratios": [0, 0, 2, 2, 2, 1, 1, 1, 0, 0, 0],
    "kv_source_layer_ids": [2, 5],
    "index_source_layer_ids": [2, 5, 7],
    "candidate_source_layer_id": 5,
    "engram_layer_ids": [1, 3],
    "dspark_target_layer_ids": [5, 6, 7],
}
ENGRAM_ROWS = 4_000_000  # of 384 million


def write_slice(directory: Path, **changes: Any) -> Path:
    """config.json and tokenizer.json for ``load_format="dummy"``; `changes` go into the text config."""
    config = json.loads((files("deepinfer") / "data/configs/deepseek-v41-flash.json").read_text("utf-8"))
    config.pop("vision_config")
    text = config["text_config"]
    text.update(CHANGES)
    text.update(changes)
    orders, heads = text["engram_max_ngram_size"] - 1, text["engram_n_heads"]
    text["engram_vocab_size"] = ENGRAM_ROWS // (orders * heads)
    tables = engram_primes(text["engram_vocab_size"], orders, heads, len(text["engram_layer_ids"]))
    text["engram_num_embeddings"] = [sum(map(sum, table)) for table in tables]
    tokenizer = write_random_tokenizer(directory, text["vocab_size"])
    compressed = compressed_vocabulary(tokenizer, text["vocab_size"], text["engram_pad_token_id"])
    text["engram_compressed_vocab_size"] = int(compressed.max()) + 1
    config.update(bos_token_id=0, eos_token_id=1, pad_token_id=2, image_token_id=None)
    text["dspark_noise_token_id"] = 3
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return directory
