"""The image encoder's tensors: checked and skipped by a text engine (spec/model.md appendix V)."""

from __future__ import annotations

from deepinfer.config.vision_config import VisionConfig
from deepinfer.models.deepseek_v41.tensor_spec import TensorSpec

_COLOURS = 3
_MARKERS = ("image_start", "image_end", "image_newline")


def vision_tensors(vision: VisionConfig, hidden_size: int) -> list[TensorSpec]:
    """Patch embedding, blocks, aligner and the three image marker rows; all BF16."""
    width, inner = vision.hidden_size, vision.intermediate_size
    merged = vision.downsample_ratio**2 * width
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(_MARKERS, (hidden_size,))
    shapes["vision.patch_embed.proj.weight"] = (width, _COLOURS * vision.patch_size**2)
    shapes["vision.patch_embed.proj.bias"] = (width,)
    for number in range(vision.num_hidden_layers):
        prefix = f"vision.blocks.{number}"
        shapes[f"{prefix}.norm1.weight"] = (width,)
        shapes[f"{prefix}.attn.wqkv.weight"] = (3 * width, width)
        shapes[f"{prefix}.attn.wqkv.bias"] = (3 * width,)
        shapes[f"{prefix}.attn.wo.weight"] = (width, width)
        shapes[f"{prefix}.attn.wo.bias"] = (width,)
        shapes[f"{prefix}.norm2.weight"] = (width,)
        shapes[f"{prefix}.mlp.w1.weight"] = (2 * inner, width)
        shapes[f"{prefix}.mlp.w2.weight"] = (width, inner)
    shapes["vision.norm.weight"] = (width,)
    shapes["aligner.w1.weight"] = (hidden_size, merged)
    shapes["aligner.w1.bias"] = (hidden_size,)
    shapes["aligner.w2.weight"] = (hidden_size, hidden_size)
    shapes["aligner.w2.bias"] = (hidden_size,)
    return [TensorSpec(name, "BF16", shape, "vision") for name, shape in shapes.items()]
