"""``deepinfer chat``: talk with the model, line by line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepinfer.cli.overlap_option import OverlapOption
from deepinfer.cli.reported_errors import reported_errors
from deepinfer.errors import RequestError
from deepinfer.sampling_params import SamplingParams

if TYPE_CHECKING:
    from deepinfer.llm import LLM


def chat(
    model: Annotated[str | None, typer.Option(help="Checkpoint directory or hub id; default: the bundled one.")] = None,
    revision: Annotated[str | None, typer.Option(help="Hub revision of the model.")] = None,
    system: Annotated[str | None, typer.Option(help="System message.")] = None,
    thinking: Annotated[bool | None, typer.Option(help="Reason first; default: what the checkpoint says.")] = None,
    effort: Annotated[str | None, typer.Option(help="minimal, low, medium, high, xhigh or max.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="New tokens of an answer at most.")] = None,
    temperature: Annotated[float | None, typer.Option(help="0 is greedy.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of every answer.")] = None,
    numerics: Annotated[str, typer.Option(help="official, fp32-quant or fp32.")] = "official",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:<index>.")] = "auto",
    backend: Annotated[str, typer.Option(help="auto, reference, cpu or cuda.")] = "auto",
    max_model_len: Annotated[int | None, typer.Option(help="Tokens of the whole talk at most.")] = None,
    overlap: OverlapOption = None,
) -> None:
    """Read a question per line from standard input and stream the answers; an empty line or the end of input stops."""
    sampling = {"max_tokens": max_tokens, "temperature": temperature, "seed": seed}
    changes: dict[str, Any] = {name: value for name, value in sampling.items() if value is not None}
    with reported_errors():
        SamplingParams(**changes)  # a wrong value must not cost the loading of a model
    talk: list[dict[str, Any]] = [] if system is None else [{"role": "system", "content": system}]
    options: dict[str, Any] = {"model": model, "revision": revision, "numerics": numerics}
    options |= {"device": device, "backend": backend, "max_model_len": max_model_len, "overlap": overlap}
    from deepinfer.llm import LLM  # here, so that --help loads no engine

    with reported_errors(), LLM(**options) as llm:
        _talk(llm, talk, llm.default_params.replace(**changes), {"thinking": thinking, "effort": effort})


def _talk(llm: LLM, talk: list[dict[str, Any]], params: SamplingParams, options: dict[str, Any]) -> None:
    while True:
        if sys.stdin.isatty():
            typer.echo("> ", nl=False)
        question = sys.stdin.readline().strip()
        if not question:
            return
        talk.append({"role": "user", "content": question})
        answer = _answer(llm, talk, params, options)
        talk.append({"role": "assistant", "content": answer})


def _answer(llm: LLM, talk: list[dict[str, Any]], params: SamplingParams, options: dict[str, Any]) -> str:
    """Stream one answer to standard output, its reasoning to standard error."""
    content: list[str] = []
    for delta in llm.stream_chat(talk, params, **options):
        if delta.error is not None:
            raise RequestError(delta.error.message, code=delta.error.code)
        typer.echo(delta.reasoning or "", nl=False, err=True)
        typer.echo(delta.content or "", nl=False)
        content.append(delta.content or "")
    typer.echo()
    return "".join(content)
