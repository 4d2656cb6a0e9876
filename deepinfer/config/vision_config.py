"""Shape figures of the image encoder, needed to check and skip its tensors."""

from __future__ import annotations

from dataclasses import dataclass

from deepinfer.config.field_reader import FieldReader
from deepinfer.config.size_limits import VISION_LIMITS, check_limits

# Keys that image input will need; a text engine only takes note of them.
_UNUSED_KEYS = ("rope_theta", "max_image_tokens", "min_pixels", "max_wh_ratio")


@dataclass(frozen=True, slots=True)
class VisionConfig:
    """The part of ``vision_config`` that fixes tensor shapes (spec/model.md 1.3 and appendix V).

    Attributes:
        num_hidden_layers: transformer blocks.
        hidden_size: width; num_attention_heads divides it.
        intermediate_size: width of the gated MLP.
        patch_size: pixels per patch side (3 colours).
        downsample_ratio: patches per side that the aligner merges.
    """

    num_hidden_layers: int
    hidden_size: int
    num_attention_heads: int
    intermediate_size: int
    patch_size: int
    downsample_ratio: int

    def __post_init__(self) -> None:
        check_limits("vision_config", self, VISION_LIMITS)

    @classmethod
    def from_reader(cls, reader: FieldReader) -> VisionConfig:
        """Parses the ``vision_config`` object."""
        reader.constant("model_type", "deepseek_v41_vision")
        config = cls(
            num_hidden_layers=reader.integer("num_hidden_layers"),
            hidden_size=reader.integer("hidden_size"),
            num_attention_heads=reader.integer("num_attention_heads"),
            intermediate_size=reader.integer("intermediate_size"),
            patch_size=reader.integer("patch_size"),
            downsample_ratio=reader.integer("downsample_ratio"),
        )
        if config.hidden_size % config.num_attention_heads:
            raise reader.fail("num_attention_heads", f"a divisor of hidden_size ({config.hidden_size})")
        for key in _UNUSED_KEYS:
            reader.raw(key, None)
        reader.warn_unknown()
        return config
