"""``deepinfer plan-parallel``: predict how fast several GPUs decode, from kernels measured on one."""

from __future__ import annotations

import json as json_format
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deepinfer.cli.report_table import ReportTable
from deepinfer.cli.reported_errors import reported_errors
from deepinfer.cli.require_paths import require_paths
from deepinfer.config.byte_size import parse_byte_size

if TYPE_CHECKING:
    from deepinfer.bench.planner.decode_plan import DecodePlan
    from deepinfer.bench.planner.plan_options import PlanOptions

_USER_SPEEDS = (20.0, 50.0, 100.0, 200.0)

_Gpus = Annotated[int, typer.Option(min=1, help="GPUs in all.")]
_GpuMemory = Annotated[str, typer.Option(help='Of each, e.g. "141GB".')]
_Profile = Annotated[
    Path | None,
    typer.Option(help="Times of ops and steps (doc/wide_ep.md); default: those of an H200 that come along."),
]
_Model = Annotated[str | None, typer.Option(help="Checkpoint, config file or hub id; default: the published config.")]
_ContextLen = Annotated[int, typer.Option(min=1, help="Tokens of a sequence.")]
_MaxSeqs = Annotated[int, typer.Option(min=1, help="Sequences on a GPU at most.")]
_Extra = Annotated[int, typer.Option(min=0, help="Redundant experts of a layer at least.")]
_Drafts = Annotated[int, typer.Option(min=0, help="Drafts that a step verifies for each sequence.")]
_TokensPerStep = Annotated[float, typer.Option(min=1.0, help="Tokens a sequence gets in a step.")]
_Imbalance = Annotated[float, typer.Option(min=1.0, help="Peak to mean of ranks, beside chance.")]
_Domain = Annotated[int, typer.Option(min=1, help="GPUs that fast links join.")]
_Inner = Annotated[float, typer.Option(min=1e-3, help="GB/s of a GPU inside a domain.")]
_Outer = Annotated[float, typer.Option(min=1e-3, help="GB/s of a GPU to other domains.")]
_Latency = Annotated[float, typer.Option(min=0.0, help="Microseconds of an all-to-all at least.")]
_Floors = Annotated[bool, typer.Option("--floors", help="Every op at the GPU's limits instead.")]
_Unchecked = Annotated[bool, typer.Option("--unchecked", help="Predict even if steps are not reproduced.")]
_RandomRouter = Annotated[bool, typer.Option("--random-router", help="The model has random weights.")]
_OneBatch = Annotated[bool, typer.Option("--one-batch", help="No step is computed in two batches.")]
_UserSpeed = Annotated[list[float] | None, typer.Option(min=0.0, help="Tokens/s/user of a column; may be repeated.")]
_Plot = Annotated[Path | None, typer.Option(help="Also draw it, .svg.")]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


def plan_parallel(
    gpus: _Gpus,
    gpu_memory: _GpuMemory,
    profile: _Profile = None,
    model: _Model = None,
    context_len: _ContextLen = 4096,
    max_seqs: _MaxSeqs = 512,
    extra: _Extra = 0,
    drafts: _Drafts = 0,
    tokens_per_step: _TokensPerStep = 1.0,
    imbalance: _Imbalance = 1.1,
    domain: _Domain = 8,
    inner: _Inner = 320.0,
    outer: _Outer = 42.0,
    latency: _Latency = 15.0,
    random_router: _RandomRouter = False,
    one_batch: _OneBatch = False,
    floors: _Floors = False,
    unchecked: _Unchecked = False,
    user_speed: _UserSpeed = None,
    plot: _Plot = None,
    json: _Json = False,
) -> None:
    """Tokens/s/GPU against tokens/s/user of decoding, for every number of GPUs that may share the experts."""
    with reported_errors():
        require_paths(None, plot, (".svg",))
        from deepinfer.bench.planner.link_model import LinkModel
        from deepinfer.bench.planner.plan_options import PlanOptions

        links = LinkModel(domain, inner, outer, latency)
        speculation = (drafts, tokens_per_step)
        options = PlanOptions(
            gpus, context_len, max_seqs, extra, *speculation, imbalance, links, random_router, not one_batch
        )
        plan = _make(options, model, parse_byte_size(gpu_memory, "--gpu-memory"), profile, (floors, unchecked))
        if plot is not None:
            plan.plot().write(plot)
    if json:
        typer.echo(json_format.dumps(plan.to_dict(), indent=1))
    else:
        _show(plan, user_speed or list(_USER_SPEEDS))


def _make(
    options: PlanOptions, model: str | None, gpu_memory: int, profile: Path | None, flags: tuple[bool, bool]
) -> DecodePlan:
    """The plan; `flags`: at floors, unchecked."""
    from deepinfer.bench.planner.decode_plan import DecodePlan
    from deepinfer.bench.planner.kernel_profile import KernelProfile
    from deepinfer.bench.planner.rank_memory import RankMemory
    from deepinfer.engine.model_path import resolve_model_path

    at_floors, unchecked = flags
    data = Path(str(files("deepinfer") / "data"))
    path = data / "configs" / "deepseek-v41-flash.json" if model is None else resolve_model_path(model)
    kernels = KernelProfile.read(data / "curves" / "h200-kernels.json" if profile is None else profile)
    memory = RankMemory.of_model(path, gpu_memory)
    plan = DecodePlan.make(memory, kernels, options)
    if not unchecked:
        plan.require_accuracy()
    return plan.at_floors(memory, kernels) if at_floors else plan


def _show(plan: DecodePlan, user_speeds: list[float]) -> None:
    if plan.calibration.checks:
        _check_table(plan).show()
        factors = f"{plan.calibration.dense_factor:.2f} (experts {plan.calibration.expert_factor:.2f})"
        typer.echo(f"ops in a step take {factors} times what they take alone")
    speeds = [f"at {speed:g}" for speed in user_speeds]
    headings = ("experts over", "weights", "peak", "sequences", "tokens/s/user", *speeds)
    table = ReportTable("predicted tokens/s/GPU: at the peak, and at so many tokens/s/user or more", headings)
    for width in plan.curves:
        peak = plan.peak(width)
        found = [plan.best_at(width, speed) for speed in user_speeds]
        cells = ["-" if point is None else f"{point.tokens_per_s_per_gpu:,.0f}" for point in found]
        at_peak = (f"{peak.tokens_per_s_per_gpu:,.0f}", str(peak.num_seqs), f"{peak.tokens_per_s_per_user:.1f}")
        table.add(f"{width} GPUs", f"{plan.weight_bytes[width] / 2**30:.1f} GiB", *at_peak, *cells)
    table.show()


def _check_table(plan: DecodePlan) -> ReportTable:
    headings = ("step", "sequences", "context", "measured ms", "model ms", "error", "error, not fitted to it")
    table = ReportTable("measured steps of one GPU beside the model of costs", headings)
    for check in plan.calibration.checks:
        step = check.step
        times = (f"{step.ms:.2f}", f"{check.model_ms:.2f}", f"{check.error:+.1%}", f"{check.unseen_error:+.1%}")
        table.add(step.part, str(step.num_seqs), str(step.context_len), *times)
    return table
