"""What an all-to-all between ranks takes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LinkModel:
    """Two kinds of links: fast ones inside a domain of GPUs, slower ones between domains. Both carry at the same time.

    The defaults are not measured by this project. They stand for 8 GPUs with NVLink and a 400 Gb/s card each: 15 us and
    42 GB/s reproduce to 12 % the published latencies of DeepEP's low-latency kernels between such machines
    (128 tokens of 7168, 8 experts: 118, 155 and 173 us dispatch and 195, 273 and 314 us combine for 16, 32 and 64
    ranks); 320 GB/s is published for its kernels between 8 H200.

    Attributes:
        domain_size: GPUs of a fast domain.
        inner_gb_per_s: gigabytes a second that a GPU sends inside its domain.
        outer_gb_per_s: likewise to other domains.
        latency_us: of one all-to-all, whatever its size.
    """

    domain_size: int = 8
    inner_gb_per_s: float = 320.0
    outer_gb_per_s: float = 42.0
    latency_us: float = 15.0

    def all_to_all_us(self, num_bytes: float, num_ranks: int) -> float:
        """Microseconds until a rank that has `num_bytes` for all ranks, its own share included, has sent them.

        0 for a single rank.
        """
        if num_ranks == 1:
            return 0.0
        share = num_bytes / num_ranks
        near = min(num_ranks, self.domain_size)
        inner = share * (near - 1) / (self.inner_gb_per_s * 1e3)
        outer = share * (num_ranks - near) / (self.outer_gb_per_s * 1e3)
        return self.latency_us + max(inner, outer)
