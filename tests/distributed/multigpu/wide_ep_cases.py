"""The ways in which ranks may share a model and its requests, for a world of any size."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.support.golden_case import GOLDEN

SHARES = {
    "data": "data_parallel_size",
    "context": "context_parallel_size",
    "experts": "expert_parallel_size",
    "engram": "engram_parallel_size",
}
SHUFFLED = {"num_redundant_experts": 2, "expert_rebalance_interval": 4, "expert_load_window": 6}
FP32 = {"numerics": "fp32"}
OFFICIAL = {"numerics": "official"}
NO_DRAFTS = {"speculative": "off"}
OVERLAPPED = {"overlap": True}
HALVES = {"two_batch_overlap": "on"}


@dataclass(frozen=True)
class WideEPCase:
    """One way to run.

    Attributes:
        name: in the test's id.
        model: "random" (every limit bites within 70 tokens), "bundled", or a folder of golden data.
        splits: of the kinds of groups, by how many the world's size is divided: 1 is the whole world, 0 is one rank.
        options: of the engine.
        extra: further options of parallelism.
        smallest: world that it fits.
        busy: ranks' share of requests: "all", or "last" for the last replica alone.
    """

    name: str
    model: str
    splits: dict[str, int]
    options: dict[str, Any]
    extra: dict[str, Any] = field(default_factory=dict)
    smallest: int = 2
    busy: str = "all"

    @property
    def is_exact(self) -> bool:
        """Whether log-probabilities are equal to the last bit on every device."""
        return self.options["numerics"] == "official"

    def sizes(self, world_size: int) -> dict[str, int]:
        """Options of parallelism."""
        shares = {SHARES[kind]: world_size // split if split else 1 for kind, split in self.splits.items()}
        return shares | self.extra

    def owners(self, world_size: int) -> list[int]:
        """The replica of each request: uneven, some replicas with none."""
        num_replicas = self.sizes(world_size).get("data_parallel_size", 1)
        if self.busy == "last":
            return [num_replicas - 1] * 2
        return [(3 * i + 1) % num_replicas for i in range(min(num_replicas + 1, 7))]

    def model_path(self, random_model: Any) -> str | None:
        """What `LLM` takes."""
        if self.model == "bundled":
            return None
        return str(random_model if self.model == "random" else GOLDEN / self.model)


CASES = [
    WideEPCase("experts with drafts", "random", {"data": 1, "experts": 1}, FP32),
    WideEPCase("one busy rank", "nano-s1", {"data": 1, "experts": 1}, FP32 | NO_DRAFTS, busy="last"),
    WideEPCase("golden with drafts", "nano-s1", {"data": 1, "experts": 1, "engram": 1}, FP32),
    WideEPCase("tables alone", "random", {"data": 1, "engram": 1}, FP32 | {"yoco": "compact"}),
    WideEPCase("context", "random", {"context": 1, "experts": 1}, FP32),
    WideEPCase("context of whole experts", "pair-calm-s2", {"context": 1}, FP32),
    WideEPCase("two of context", "nano-s1", {"data": 2, "experts": 1}, FP32, {"context_parallel_size": 2}, smallest=4),
    WideEPCase("halves of experts", "random", {"data": 1, "experts": 2, "engram": 1}, FP32, smallest=4),
    WideEPCase("bundled", "bundled", {"data": 1, "experts": 1, "engram": 1}, FP32),
    WideEPCase("exact", "bundled", {"data": 1, "experts": 1}, OFFICIAL | OVERLAPPED, {"num_redundant_experts": 3}),
    WideEPCase("plain", "bundled", {"data": 1, "experts": 1}, OFFICIAL | {"overlap": False}),
    WideEPCase("exact without drafts", "bundled", {"data": 1, "experts": 1, "engram": 1}, OFFICIAL | NO_DRAFTS),
    WideEPCase("exact context", "bundled", {"context": 1, "experts": 1}, OFFICIAL | {"yoco": "compact"}),
    WideEPCase("two batches", "random", {"data": 1, "experts": 1}, FP32, HALVES),
    WideEPCase("exact two batches", "bundled", {"context": 1, "experts": 1}, OFFICIAL | {"yoco": "compact"}, HALVES),
]
MOVING = [
    WideEPCase("all experts", "bundled", {"data": 1, "experts": 1}, OFFICIAL | OVERLAPPED, SHUFFLED),
    WideEPCase("halves of experts", "bundled", {"data": 1, "experts": 2}, OFFICIAL, SHUFFLED, smallest=4),
    WideEPCase("context", "bundled", {"context": 1, "experts": 1}, OFFICIAL | NO_DRAFTS, SHUFFLED),
]
