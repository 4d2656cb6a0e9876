"""``deepinfer experts``: record which experts a model chooses, and replay their balancing over ranks."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated

import typer

from deepinfer.bench.prompt_file import bundled_prompts, read_prompts
from deepinfer.cli.report_table import ReportTable
from deepinfer.cli.reported_errors import reported_errors
from deepinfer.cli.require_paths import require_paths
from deepinfer.sampling_params import SamplingParams

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Loads of experts: record them, replay their balancing over ranks."
)

_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")]


@app.command()
def record(
    output: Annotated[Path, typer.Argument(help="The loads, .npz.")],
    prompts: Annotated[Path | None, typer.Option(help="A .jsonl file or a text; default: evaluation rows.")] = None,
    model: Annotated[str | None, typer.Option(help="Checkpoint directory or hub id; default: the bundled one.")] = None,
    backend: Annotated[str, typer.Option(help="auto, reference, cpu or cuda.")] = "auto",
    numerics: Annotated[str, typer.Option(help="official, fp32-quant or fp32.")] = "official",
    batch: Annotated[int, typer.Option(min=1, help="Prompts at a time.")] = 32,
    max_tokens: Annotated[int, typer.Option(min=2, help="New tokens of each prompt.")] = 40,
    limit: Annotated[int, typer.Option(min=1, help="Prompts at most.")] = 1000,
    json: _Json = False,
) -> None:
    """Answer prompts greedily and write how many tokens each expert got in every decode step."""
    with reported_errors():
        require_paths(prompts, output, (".npz",))
        from deepinfer.bench.load_file import write_loads
        from deepinfer.bench.routing_recorder import record_routing
        from deepinfer.config.model_config import DeepSeekV41Config
        from deepinfer.engine.model_path import resolve_model_path
        from deepinfer.llm import LLM

        num_experts = DeepSeekV41Config.from_path(resolve_model_path(model)).n_routed_experts
        with LLM(model, backend=backend, numerics=numerics, max_num_seqs=batch, speculative="off") as llm:
            chosen = list(bundled_prompts()["eval"][:limit])
            rows = chosen if prompts is None else read_prompts(prompts, llm.get_tokenizer(), limit)
            params = SamplingParams(temperature=0.0, max_tokens=max_tokens)
            loads = record_routing(llm, rows, params, batch=batch, num_experts=num_experts)
        write_loads(output, loads)
    if json:
        names = ("num_steps", "num_layers", "num_experts")
        typer.echo(json_format.dumps(dict(zip(names, loads.shape, strict=True)), indent=1))
        return
    typer.echo(f"{loads.shape[0]} steps, {loads.shape[1]} layers of {loads.shape[2]} experts: {output}")


@app.command()
def balance(
    file: Annotated[Path, typer.Argument(help="Loads, made by deepinfer experts record.")],
    ranks: Annotated[int, typer.Option(min=1, help="Ranks that share the experts.")],
    extra: Annotated[int, typer.Option(min=0, help="Redundant experts of a layer at least.")] = 0,
    interval: Annotated[int, typer.Option(min=1, help="Steps between rearrangements.")] = 32,
    window: Annotated[int, typer.Option(min=1, help="Steps that a rearrangement looks back.")] = 64,
    plot: Annotated[Path | None, typer.Option(help="Also draw every step, .svg.")] = None,
    json: _Json = False,
) -> None:
    """Peak-to-mean load of ranks over recorded steps: without balancing, with it, and with hindsight."""
    with reported_errors():
        require_paths(file, plot, (".svg",))
        from deepinfer.bench.balance_replay import BalanceReplay
        from deepinfer.bench.load_file import read_loads

        replay = BalanceReplay.run(read_loads(file), ranks, extra, interval=interval, window=window)
        if plot is not None:
            replay.plot().write(plot)
    if json:
        typer.echo(json_format.dumps(replay.to_dict(), indent=1))
        return
    table = ReportTable("tokens of the fullest rank over those of the mean rank", ("placement", "peak to mean"))
    for name, ratio in replay.ratios.items():
        table.add(name, f"{ratio:.3f}")
    table.show()
    moves = ", ".join(str(number) for number in replay.num_moves) or "none"
    typer.echo(f"experts sent from rank to rank by each rearrangement: {moves}")
