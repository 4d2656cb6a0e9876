"""Names of the components that a research hook may replace."""

from __future__ import annotations

from deepinfer.config.model_config import DeepSeekV41Config


def replace_points(config: DeepSeekV41Config) -> tuple[str, ...]:
    """``layers.N.engram`` where the layer has one, ``layers.N.attn`` and ``layers.N.ffn``, as the layers call them."""
    points: list[str] = []
    for plan in config.layer_plans:
        parts = ("attn", "ffn") if plan.engram_index is None else ("engram", "attn", "ffn")
        points += [f"layers.{plan.layer_id}.{part}" for part in parts]
    return tuple(points)
