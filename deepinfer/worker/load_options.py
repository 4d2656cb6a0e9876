"""How a model's weights are read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options of `load_model`.

    Attributes:
        load_format: "auto" reads the files, "dummy" makes random weights from the config alone.
        with_drafts: load the draft model too.
        engram_storage: for a GPU: "host" copies Engram tables to pinned memory, "disk" leaves them in the mapped file,
            "auto" does the former where half of the free host memory holds them.
    """

    load_format: str = "auto"
    with_drafts: bool = False
    engram_storage: str = "auto"
