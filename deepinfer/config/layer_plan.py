"""What one target layer does: its ratio, whose caches it reads, what it owns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deepinfer.config.model_config import DeepSeekV41Config


@dataclass(frozen=True, slots=True)
class LayerPlan:
    """Roles of one layer (spec/model.md 0 and 5).

    Attributes:
        layer_id: 0-based number.
        ratio: original tokens per compressed entry; 0 for a window-only layer.
        kv_source: layer whose compressed entries and index keys this one reads (maybe itself); None at ratio 0.
        index_source: layer whose list of selected entries this one uses; None at ratio 0.
        owns_kv: has a compressor, writes entries and index keys.
        owns_index: has index queries, makes its own list.
        is_candidate_source: also picks the candidate blocks.
        uses_candidates: its selection is restricted to the candidate source's blocks.
        engram_index: number of its Engram table, None without one.
    """

    layer_id: int
    ratio: int
    kv_source: int | None
    index_source: int | None
    owns_kv: bool
    owns_index: bool
    is_candidate_source: bool
    uses_candidates: bool
    engram_index: int | None

    @classmethod
    def for_layer(cls, config: DeepSeekV41Config, layer_id: int) -> LayerPlan:
        """Derives the plan from the config's ascending source lists: a layer reads the last source at or before it."""
        ratio = config.compress_ratios[layer_id]
        owns_index = layer_id in config.index_source_layer_ids
        candidates = config.candidate_source_layer_id
        engram_layers = config.engram_layer_ids
        return cls(
            layer_id=layer_id,
            ratio=ratio,
            kv_source=_last_source(config.kv_source_layer_ids, layer_id) if ratio else None,
            index_source=_last_source(config.index_source_layer_ids, layer_id) if ratio else None,
            owns_kv=layer_id in config.kv_source_layer_ids,
            owns_index=owns_index,
            is_candidate_source=layer_id == candidates,
            uses_candidates=owns_index and ratio == 1 and candidates is not None and layer_id > candidates,
            engram_index=engram_layers.index(layer_id) if layer_id in engram_layers else None,
        )


def _last_source(sources: tuple[int, ...], layer_id: int) -> int | None:
    return max((source for source in sources if source <= layer_id), default=None)
