"""What a plan is for."""

from __future__ import annotations

from dataclasses import dataclass, field

from deepinfer.bench.planner.link_model import LinkModel


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """
    Attributes:
        num_gpus: GPUs in all.
        context_len: tokens of a sequence: what attention reads and the cache holds.
        max_seqs: sequences on a GPU at most, whatever fits: times of decode steps of far more rows are not measured.
        min_extra: redundant experts of a layer at least, where experts are spread.
        num_drafts: drafts that a step verifies for each sequence; 0: no drafts.
        tokens_per_step: tokens that a sequence gets in a step, 1 without drafts.
        imbalance: peak to mean of ranks that is left behind balancing, beside chance.
        links: between GPUs.
        random_router: whether the model has random weights (``load_format="dummy"``), whose router is less even; then
            its drawn loads stand for `imbalance` and chance.
        may_split: whether a step may be computed in two batches.
    """

    num_gpus: int
    context_len: int = 4096
    max_seqs: int = 512
    min_extra: int = 0
    num_drafts: int = 0
    tokens_per_step: float = 1.0
    imbalance: float = 1.1
    links: LinkModel = field(default_factory=LinkModel)
    random_router: bool = False
    may_split: bool = True
