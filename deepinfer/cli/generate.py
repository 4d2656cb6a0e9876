"""``deepinfer generate``: complete prompts given on the command line."""

from __future__ import annotations

import json as json_format
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepinfer.cli.batch_options import named_values
from deepinfer.cli.exit_code import ExitCode
from deepinfer.cli.overlap_option import OverlapOption
from deepinfer.cli.reported_errors import reported_errors
from deepinfer.sampling_params import SamplingParams

if TYPE_CHECKING:
    from deepinfer.outputs import RequestOutput


def generate(
    prompts: Annotated[list[str], typer.Argument(help="Prompts; a single - reads one prompt from standard input.")],
    model: Annotated[str | None, typer.Option(help="Checkpoint directory or hub id; default: the bundled one.")] = None,
    revision: Annotated[str | None, typer.Option(help="Hub revision of the model.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="New tokens at most.")] = None,
    temperature: Annotated[float | None, typer.Option(help="0 is greedy.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Nucleus size.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Best tokens to choose from.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of every prompt.")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="Stop string; may be repeated.")] = None,
    logprobs: Annotated[int | None, typer.Option(help="Alternatives reported per token.")] = None,
    numerics: Annotated[str, typer.Option(help="official, fp32-quant or fp32.")] = "official",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:<index>.")] = "auto",
    backend: Annotated[str, typer.Option(help="auto, reference, cpu or cuda.")] = "auto",
    max_model_len: Annotated[int | None, typer.Option(help="Prompt and output tokens at most.")] = None,
    overlap: OverlapOption = None,
    engine: Annotated[list[str] | None, typer.Option(help="Further engine option, NAME=JSON; may be repeated.")] = None,
    progress: Annotated[bool, typer.Option(help="Progress bar on standard error.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per prompt and line.")] = False,
) -> None:
    """Complete prompts; options not given follow the checkpoint's generation_config."""
    sampling = {
        "max_tokens": max_tokens,
        "temperature": temperature,
        "top_p": top_p,
        "top_k": top_k,
        "seed": seed,
        "stop": stop,
        "logprobs": logprobs,
    }
    given: dict[str, Any] = {name: value for name, value in sampling.items() if value is not None}
    with reported_errors():
        SamplingParams(**given)  # a wrong value must not cost the loading of a model
    texts = [sys.stdin.read()] if prompts == ["-"] else prompts
    options: dict[str, Any] = {"model": model, "revision": revision, "numerics": numerics}
    options |= {"device": device, "backend": backend, "max_model_len": max_model_len, "overlap": overlap}
    outputs = _run(texts, given, (options, engine), progress)
    for output in outputs:
        typer.echo(json_format.dumps(output.to_dict(), allow_nan=False) if json else _readable(output))
    if any(output.error is not None for output in outputs):
        raise typer.Exit(ExitCode.SOME_FAILED)


def _run(
    prompts: list[str], sampling: dict[str, Any], options: tuple[dict[str, Any], list[str] | None], progress: bool
) -> list[RequestOutput]:
    """`options`: named ones, and NAME=JSON words that come before them."""
    from deepinfer.llm import LLM

    named, words = options
    with reported_errors(), LLM(**named | named_values(words, "--engine")) as llm:
        return llm.generate(prompts, llm.default_params.replace(**sampling), use_tqdm=progress)


def _readable(output: RequestOutput) -> str:
    prompt = output.prompt if output.prompt is not None else str(output.prompt_token_ids)
    if output.error is not None:
        return f"{prompt}\n  error ({output.error.code}): {output.error.message}\n"
    completion = output.outputs[0]
    return f"{prompt}{completion.text}\n  [{len(completion.token_ids)} tokens, {completion.finish_reason}]\n"
