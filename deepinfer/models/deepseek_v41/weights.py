"""The checkpoint's tensor names, types and shapes, as data derived from the config alone (spec/model.md 2.1)."""

from __future__ import annotations

from deepinfer.config.layer_plan import LayerPlan
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.models.deepseek_v41.tensor_spec import TensorSpec
from deepinfer.models.deepseek_v41.vision_weights import vision_tensors

Specs = list[TensorSpec]

GROUPS = (
    "embed",
    "head",
    "norms",
    "attention",
    "routers",
    "routed_experts",
    "shared_experts",
    "hyper_connections",
    "engram_tables",
    "engram_projections",
    "draft",
    "vision",
)


def tensor_table(config: DeepSeekV41Config) -> tuple[TensorSpec, ...]:
    """Every tensor of the published form: text, draft (``mtp.*``) and image tensors.

    A tied model has no ``head.weight`` row (a checkpoint may still hold an equal copy).
    """
    embedding = (config.vocab_size, config.hidden_size)
    table = [TensorSpec("embed.weight", "BF16", embedding, "embed")]
    if not config.tie_word_embeddings:
        table.append(TensorSpec("head.weight", "BF16", embedding, "head"))
    table.append(TensorSpec("norm.weight", "BF16", (config.hidden_size,), "norms"))
    for plan in config.layer_plans:
        prefix = f"layers.{plan.layer_id}"
        table += _block(config, prefix, config.n_routed_experts)
        table += _compressed_attention(config, prefix, plan)
        if plan.engram_index is not None:
            table += _engram(config, prefix, config.engram_num_embeddings[plan.engram_index])
    table += _draft(config)
    if config.vision_config is not None:
        table += vision_tensors(config.vision_config, config.hidden_size)
    return tuple(table)


def fp8_matrix(name: str, rows: int, columns: int, group: str) -> Specs:
    """A dense matrix: e4m3 codes and one E8M0 scale per 32x32 tile (partial tiles at the edges)."""
    return [
        TensorSpec(f"{name}.weight", "F8_E4M3", (rows, columns), group),
        TensorSpec(f"{name}.scale", "F8_E8M0", (_groups(rows), _groups(columns)), group),
    ]


def fp4_matrix(name: str, rows: int, columns: int, group: str) -> Specs:
    """A routed expert's matrix: two e2m1 codes a byte and one E8M0 scale per 32 columns of a row."""
    return [
        TensorSpec(f"{name}.weight", "I8", (rows, columns // 2), group),
        TensorSpec(f"{name}.scale", "F8_E8M0", (rows, _groups(columns)), group),
    ]


def _groups(size: int) -> int:
    return -(-size // 32)


def _vector(name: str, size: int, group: str, dtype: str = "BF16") -> TensorSpec:
    return TensorSpec(name, dtype, (size,), group)


def _block(config: DeepSeekV41Config, prefix: str, num_experts: int) -> Specs:
    """The tensors that every layer and every draft stage has (attention is counted with its input norm)."""
    hidden = config.hidden_size
    table = [
        _vector(f"{prefix}.attn_norm.weight", hidden, "attention"),
        _vector(f"{prefix}.ffn_norm.weight", hidden, "norms"),
    ]
    table += _attention(config, f"{prefix}.attn")
    for sublayer in ("attn", "ffn"):
        table += _hyper_connection(config, f"{prefix}.hc_{sublayer}")
    return table + _experts(config, f"{prefix}.ffn", num_experts)


def _attention(config: DeepSeekV41Config, prefix: str) -> Specs:
    group, hidden = "attention", config.hidden_size
    width = config.num_attention_heads * config.head_dim
    latent = config.o_groups * config.o_lora_rank
    return [
        *fp8_matrix(f"{prefix}.wq_a", config.q_lora_rank, hidden, group),
        _vector(f"{prefix}.q_norm.weight", config.q_lora_rank, group),
        *fp8_matrix(f"{prefix}.wq_b", width, config.q_lora_rank, group),
        *fp8_matrix(f"{prefix}.wkv", config.head_dim, hidden, group),
        _vector(f"{prefix}.kv_norm.weight", config.head_dim, group),
        _vector(f"{prefix}.attn_sink", config.num_attention_heads, group, "F32"),
        *fp8_matrix(f"{prefix}.wo_a", latent, width // config.o_groups, group),
        *fp8_matrix(f"{prefix}.wo_b", hidden, latent, group),
    ]


def _hyper_connection(config: DeepSeekV41Config, prefix: str) -> Specs:
    streams = config.hc_mult
    mixes = streams * (streams + 2)
    group = "hyper_connections"
    return [
        TensorSpec(f"{prefix}_fn", "F32", (mixes, streams * config.hidden_size), group),
        _vector(f"{prefix}_base", mixes, group, "F32"),
        _vector(f"{prefix}_scale", 3, group, "F32"),
    ]


def _experts(config: DeepSeekV41Config, prefix: str, num_experts: int) -> Specs:
    hidden, inner = config.hidden_size, config.moe_intermediate_size
    table = [TensorSpec(f"{prefix}.gate.weight", "BF16", (num_experts, hidden), "routers")]
    table += [_vector(f"{prefix}.gate.{name}", num_experts, "routers", "F32") for name in ("bias", "bias_vl")]
    for expert in range(num_experts):
        for name, rows, columns in (("w1", inner, hidden), ("w2", hidden, inner), ("w3", inner, hidden)):
            table += fp4_matrix(f"{prefix}.experts.{expert}.{name}", rows, columns, "routed_experts")
    for name, rows, columns in (("w1", inner, hidden), ("w2", hidden, inner), ("w3", inner, hidden)):
        table += fp8_matrix(f"{prefix}.shared_experts.{name}", rows, columns, "shared_experts")
    return table


def _compressed_attention(config: DeepSeekV41Config, prefix: str, plan: LayerPlan) -> Specs:
    """Compressor and index keys of a KV source, index queries of an index source."""
    group, hidden, head, index = "attention", config.hidden_size, config.head_dim, config.index_head_dim
    compressor, indexer = f"{prefix}.attn.compressor", f"{prefix}.attn.indexer"
    table: Specs = []
    if plan.owns_kv:
        table.append(TensorSpec(f"{compressor}.wkv.weight", "BF16", (head, hidden), group))
        if plan.ratio > 1:
            table.append(TensorSpec(f"{compressor}.wgate.weight", "BF16", (head, hidden), group))
        table.append(_vector(f"{compressor}.norm.weight", head, group))
        table.append(TensorSpec(f"{indexer}.wk.weight", "BF16", (index, head), group))
        table.append(_vector(f"{indexer}.k_norm.weight", index, group))
    if plan.owns_index:
        heads = config.index_n_heads
        table += fp8_matrix(f"{indexer}.wq_b", heads * index, config.q_lora_rank, group)
        table.append(TensorSpec(f"{indexer}.weights_proj.weight", "BF16", (heads, hidden), group))
    return table


def _engram(config: DeepSeekV41Config, prefix: str, rows: int) -> Specs:
    """One n-gram table (a scale per 32 values of a row) and its projection to keys per stream and one value."""
    hidden, width, streams = config.hidden_size, config.engram_head_dim, config.hc_mult
    lookups = (config.engram_max_ngram_size - 1) * config.engram_n_heads
    group = "engram_projections"
    return [
        TensorSpec(f"{prefix}.engram.embed.weight", "F8_E4M3", (rows, width), "engram_tables"),
        TensorSpec(f"{prefix}.engram.embed.scale", "F8_E8M0", (rows, _groups(width)), "engram_tables"),
        *fp8_matrix(f"{prefix}.engram.wkv", (streams + 1) * hidden, lookups * width, group),
        TensorSpec(f"{prefix}.engram.q_weight", "BF16", (streams, hidden), group),
        TensorSpec(f"{prefix}.engram.k_weight", "BF16", (streams, hidden), group),
    ]


def _draft(config: DeepSeekV41Config) -> Specs:
    """The draft stages; the first takes in the target's features, the last has the Markov and confidence heads."""
    stages, hidden, rank = config.num_nextn_predict_layers, config.hidden_size, config.dspark_markov_rank
    if not stages:
        return []
    table: Specs = []
    for stage in range(stages):
        table += _block(config, f"mtp.{stage}", config.dspark_n_routed_experts)
    table += fp8_matrix("mtp.0.main_proj", hidden, len(config.dspark_target_layer_ids) * hidden, "draft")
    last = f"mtp.{stages - 1}"
    table += [
        _vector("mtp.0.main_norm.weight", hidden, "draft"),
        _vector(f"{last}.norm.weight", hidden, "draft"),
        TensorSpec(f"{last}.markov_head.embed.weight", "BF16", (config.vocab_size, rank), "draft"),
        TensorSpec(f"{last}.markov_head.head.weight", "BF16", (config.vocab_size, rank), "draft"),
        TensorSpec(f"{last}.confidence_head.proj.weight", "BF16", (1, hidden + rank), "draft"),
    ]
    return [TensorSpec(spec.name, spec.dtype, spec.shape, "draft") for spec in table]
