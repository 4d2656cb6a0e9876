"""``deepinfer bench plot``: pictures of what `bench ops` and `bench step` have measured; needs no GPU."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deepinfer.cli.report_table import ReportTable
from deepinfer.cli.reported_errors import reported_errors
from deepinfer.cli.require_paths import require_paths
from deepinfer.errors import ConfigError

if TYPE_CHECKING:
    from deepinfer.bench.throughput_curve import ThroughputCurve

_ACCEPTED = (0.79, 0.57, 0.41, 0.33, 0.29)  # the bundled model on its evaluation rows (doc/performance.md)
_PUBLISHED = "published"


def plot(
    result: Annotated[Path, typer.Argument(help="What bench ops or bench step has printed with --json.")],
    picture: Annotated[Path, typer.Argument(help="File to write, .svg.")],
    also: Annotated[
        list[Path] | None, typer.Option(help="Of steps: a further result, of other batches or drafts; may be repeated.")
    ] = None,
    accepted: Annotated[
        list[float] | None,
        typer.Option(
            min=0.0, max=1.0, help="Chance of the first, second, ... draft; repeated. Default: the bundled model's."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help='Of steps: also the whole model with this config; "published": that of V4.1-Flash.'),
    ] = None,
) -> None:
    """Draw a roofline of ops, or tokens a second of steps against the batch (drafts off, fixed and varlen)."""
    with reported_errors():
        require_paths(result, picture, (".svg",))
        from deepinfer.config.strict_json import MAX_TABLE_BYTES, read_json_object

        content = read_json_object(result, max_bytes=MAX_TABLE_BYTES)
        if "ops" in content:
            from deepinfer.bench.planner.kernel_profile import KernelProfile
            from deepinfer.bench.roofline import roofline

            if also or accepted or model is not None:
                raise ConfigError(f"{result} has ops: --also, --accepted and --model are for steps; leave them out")
            roofline(KernelProfile.read(result)).write(picture)
            return
        if "steps" not in content:
            raise ConfigError(f'{result}: neither "ops" nor "steps"; expected what bench ops or step --json prints')
        curve = _curve([result, *(also or ())], tuple(accepted or _ACCEPTED), model)
        curve.plot().write(picture)
        _show(curve, has_whole=model is not None)


def _curve(results: list[Path], accepted: tuple[float, ...], model: str | None) -> ThroughputCurve:
    from deepinfer.bench.throughput_curve import ThroughputCurve
    from deepinfer.config.model_config import DeepSeekV41Config
    from deepinfer.engine.model_path import resolve_model_path

    if model is None:
        return ThroughputCurve.read(results, accepted, None)
    published = str(files("deepinfer") / "data/configs/deepseek-v41-flash.json")
    path = resolve_model_path(published if model == _PUBLISHED else model)
    return ThroughputCurve.read(results, accepted, DeepSeekV41Config.from_path(path))


def _show(curve: ThroughputCurve, *, has_whole: bool) -> None:
    table = ReportTable("tokens a second", ("model", "drafts", "sequences", "tokens/s"), num_left=2)
    for whole in (False, True) if has_whole else (False,):
        for name, points in curve.lines(whole=whole).items():
            for num_seqs, speed in points:
                table.add("whole" if whole else "measured", name, f"{num_seqs:.0f}", f"{speed:.0f}")
    table.show()
