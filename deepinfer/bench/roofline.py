"""Roofline of measured ops: what they compute a second against what they compute a byte."""

from __future__ import annotations

from typing import Final

from deepinfer.bench.line_plot import LinePlot
from deepinfer.bench.planner.kernel_profile import KernelProfile

_FLOPS: Final = 2  # of a multiply-add


def roofline(profile: KernelProfile) -> LinePlot:
    """One dot for each use and number of rows of each op that has products; the roof is what the same run measured.

    Williams, Waterman, Patterson: Roofline, CACM 52 (2009).
    """
    peak = profile.multiply_adds_per_us * _FLOPS * 1e-6  # TFLOP/s
    copied = profile.bytes_per_us * 1e-6  # TB/s
    dots: dict[str, list[tuple[float, float]]] = {}
    for (op, _), points in profile.ops.items():
        for point in points:
            flops = point.multiply_adds * _FLOPS
            if flops and point.num_bytes:
                dots.setdefault(op, []).append((flops / point.num_bytes, flops / point.us * 1e-6))
    reached = [x for found in dots.values() for x, _ in found] or [peak / copied]
    plot = LinePlot(
        f"ops of a step, {profile.context_len} tokens of context",
        "FLOPs a byte",
        "TFLOP/s",
        note=f"roof: {copied:.2f} TB/s copied, {peak:.0f} TFLOP/s in a bf16 product, both of the same run",
        log_axes=True,
    )
    ends = (min(*reached, peak / copied), peak / copied, max(*reached, peak / copied))
    plot.add("roof", [(x, min(peak, copied * x)) for x in ends])
    for op, found in sorted(dots.items()):
        plot.add(op, sorted(found), marks=True, joined=False)
    return plot
