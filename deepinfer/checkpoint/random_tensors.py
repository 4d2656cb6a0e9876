"""Random weights for any V4.1 config, calm enough that logits and routing stay in a trained model's range."""

from __future__ import annotations

import hashlib
import math
import re

import torch

from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.models.deepseek_v41.tensor_spec import TensorSpec

# First match decides: pattern of the name, mean, standard deviation; None: 1 / sqrt(columns).
_STATISTICS: tuple[tuple[re.Pattern[str], float, float | None], ...] = tuple(
    (re.compile(pattern), mean, deviation)
    for pattern, mean, deviation in (
        (r"embed\.weight|image_\w+", 0.0, 1.0),
        (r".*norm\d?\.weight|.*engram\.[qk]_weight", 1.0, 0.25),
        (r".*attn_sink", -0.5, 0.5),
        (r".*hc_\w+_base", 0.2, 0.7),
        (r".*hc_\w+_scale", 0.8, 0.2),
        (r".*gate\.bias(_vl)?", 0.0, 0.2),
        (r".*engram\.embed\.weight", 0.0, 0.5),
        (r"(vision|aligner)\..*bias", 0.0, 0.02),
    )
)
_HEAD_RMS = 2.5  # rms of the logits of a normed hidden state
_OUTPUTS = re.compile(r".*(wo_b|w2|engram\.wkv)\.weight")


class RandomTensors:
    """Makes tensors by name: the same values for the same seed, whatever else is made.

    Args:
        config: model they are for.
        seed: any integer.
        gain: factor on what the sublayers write into the residual streams (smaller: calmer).
    """

    def __init__(self, config: DeepSeekV41Config, seed: int, gain: float = 1.0) -> None:
        self._config = config
        self._seed = seed
        self._gain = gain

    def values(self, spec: TensorSpec) -> torch.Tensor:
        """float32 values of a weight, before it is stored: [out, in] also for packed FP4."""
        shape = (spec.shape[0], 2 * spec.shape[1]) if spec.dtype == "I8" else spec.shape
        digest = hashlib.blake2b(f"{self._seed}:{spec.name}".encode(), digest_size=8).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest, "little") % 2**63)
        mean, deviation = weight_statistics(spec.name, shape[-1], self._gain)
        values = torch.randn(shape, generator=generator) * deviation + mean
        if spec.name == "head.weight":
            values[self._silent_ids()] = 0.0
        return values

    def _silent_ids(self) -> list[int]:
        """Ids whose logit is always 0, so that greedy decoding does not meet them."""
        config = self._config
        ids = {config.bos_token_id, *config.eos_token_ids, config.pad_token_id, config.image_token_id}
        return sorted(token for token in ids if token is not None and token < config.vocab_size)


def weight_statistics(name: str, num_columns: int, gain: float = 1.0) -> tuple[float, float]:
    """Mean and standard deviation of a weight's random values; `gain` applies to what writes into the streams."""
    for pattern, mean, deviation in _STATISTICS:
        if pattern.fullmatch(name) and deviation is not None:
            return mean, deviation
    scale = 1.0 / math.sqrt(num_columns)
    if name == "head.weight":
        scale *= _HEAD_RMS
    return 0.0, scale * (gain if _OUTPUTS.fullmatch(name) else 1.0)
