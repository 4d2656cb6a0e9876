"""``deepinfer calibrate``: fit the confidence temperatures of the draft model to a text."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deepinfer.bench.prompt_file import read_prompts
from deepinfer.cli.reported_errors import reported_errors
from deepinfer.cli.require_paths import require_paths
from deepinfer.errors import ConfigError

if TYPE_CHECKING:
    from deepinfer.bench.temperature_fit import TemperatureFit


def calibrate(
    text_file: Annotated[Path, typer.Argument(help="A .jsonl file of prompts, or a text that is continued.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="JSON for LLM(speculative=...).")],
    model: Annotated[str | None, typer.Option(help="Checkpoint directory or hub id; default: the bundled one.")] = None,
    num_drafts: Annotated[int | None, typer.Option(help="Drafts per step; default: as the model was trained.")] = None,
    temperature: Annotated[float | None, typer.Option(help="Of sampling; default: the checkpoint's.")] = None,
    max_tokens: Annotated[int, typer.Option(min=2, help="New tokens of each prompt.")] = 64,
    limit: Annotated[int, typer.Option(min=3, help="Prompts taken from the file at most.")] = 192,
    numerics: Annotated[str, typer.Option(help="official, fp32-quant or fp32.")] = "official",
) -> None:
    """Run the model over a text, fit one temperature per draft position, judge them on the third held out."""
    with reported_errors():
        require_paths(text_file, output)
        from deepinfer.bench.calibrator import calibrate as fit_to
        from deepinfer.llm import LLM

        drafts = {"num_drafts": num_drafts, "varlen": False, "temperatures": 1.0}
        with LLM(model, numerics=numerics, max_num_seqs=32, speculative=drafts) as llm:
            prompts = read_prompts(text_file, llm.get_tokenizer(), limit)
            params = llm.default_params.replace(max_tokens=max_tokens)
            if temperature is not None:
                params = params.replace(temperature=temperature)
            fit = fit_to(llm, prompts, params)
        try:
            output.write_text(json_format.dumps(fit.to_dict(), indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{str(output)!r} cannot be written ({error})") from error
    typer.echo(_report(fit))


def _report(fit: TemperatureFit) -> str:
    lines = ["draft  temperature  judged  held out  error at 1  error now"]
    for place, item in enumerate(fit.positions, 1):
        lines.append(
            f"{place:5}  {item.temperature:11.3f}  {item.num_fitted:6}  {item.num_held_out:8}  "
            f"{_percent(item.error_before):>10}  {_percent(item.error_after):>9}"
        )
    verdict = "fell by at least a third" if fit.is_enough else "could not be lowered by a third"
    change = f"{_percent(fit.error_before)} -> {_percent(fit.error_after)}"
    return "\n".join([*lines, f"The held-out calibration error {verdict}: {change}."])


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
