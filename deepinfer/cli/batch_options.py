"""Options that the commands of ``deepinfer batch`` share, and what they mean together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from deepinfer.errors import ConfigError

if TYPE_CHECKING:
    from deepinfer.batch.job_request import JobRequest

Directory: TypeAlias = Annotated[Path, typer.Argument(metavar="OUT_DIR", help="Directory of the job.")]
Input: TypeAlias = Annotated[Path, typer.Argument(metavar="IN", help="JSON lines, Parquet or OpenAI batch file.")]
Output: TypeAlias = Annotated[Path, typer.Option("--output", "-o", metavar="OUT_DIR", help="Directory of the job.")]
Format: TypeAlias = Annotated[str, typer.Option(help="auto, jsonl, parquet or openai.")]
IdColumn: TypeAlias = Annotated[str, typer.Option(help="Column of a row's id; rows without one get row-<number>.")]
PromptColumn: TypeAlias = Annotated[str, typer.Option(help="Column of a text or of token ids.")]
MessagesColumn: TypeAlias = Annotated[str, typer.Option(help="Column of a conversation.")]
ParamsColumn: TypeAlias = Annotated[str, typer.Option(help="Column of an object of sampling parameters.")]
ChatColumn: TypeAlias = Annotated[str, typer.Option(help="Column of an object of chat options (tools, ...).")]
ParamColumns: TypeAlias = Annotated[
    list[str] | None, typer.Option("--param-column", help="Column that is a sampling parameter: NAME or NAME=COLUMN.")
]
KeepPrompts: TypeAlias = Annotated[bool, typer.Option("--keep-prompts", help="Keep prompts in the results.")]
TokenIds: TypeAlias = Annotated[bool, typer.Option("--token-ids", help="Write token ids into the results.")]
MaxTokens: TypeAlias = Annotated[int | None, typer.Option(help="New tokens of a row at most.")]
Temperature: TypeAlias = Annotated[float | None, typer.Option(help="0 is greedy.")]
TopP: TypeAlias = Annotated[float | None, typer.Option(help="Nucleus size.")]
Stop: TypeAlias = Annotated[list[str] | None, typer.Option(help="Stop string; may be repeated.")]
Params: TypeAlias = Annotated[
    list[str] | None, typer.Option("--param", help="Any other sampling parameter: NAME=JSON; may be repeated.")
]
Seed: TypeAlias = Annotated[int, typer.Option(help="Of the job; each row gets a hash of it and its id.")]
Thinking: TypeAlias = Annotated[bool | None, typer.Option(help="Whether answers to conversations reason first.")]
Effort: TypeAlias = Annotated[str | None, typer.Option(help="How thorough the reasoning is: minimal to max.")]
Model: TypeAlias = Annotated[str | None, typer.Option(help="Checkpoint directory or hub id; default: the bundled one.")]
Revision: TypeAlias = Annotated[str | None, typer.Option(help="Hub revision of the model.")]
Numerics: TypeAlias = Annotated[str, typer.Option(help="official, fp32-quant or fp32.")]
Backend: TypeAlias = Annotated[str, typer.Option(help="auto, reference, cpu or cuda.")]
Device: TypeAlias = Annotated[str | None, typer.Option(help="auto, cpu, cuda or cuda:<index>.")]
MaxModelLen: TypeAlias = Annotated[int | None, typer.Option(help="Prompt and output tokens of a row at most.")]
EngineOptions: TypeAlias = Annotated[
    list[str] | None, typer.Option("--engine", help="Any other engine option: NAME=JSON; may be repeated.")
]
RangeRows: TypeAlias = Annotated[int | None, typer.Option(help="Rows that a worker takes at a time.")]
MaxRowBytes: TypeAlias = Annotated[int, typer.Option(help="A longer row is a row error.")]
MaxNumSeqs: TypeAlias = Annotated[int | None, typer.Option(help="Rows computed at once.")]
NumThreads: TypeAlias = Annotated[int | None, typer.Option(help="CPU threads of a step.")]
BudgetTokens: TypeAlias = Annotated[int | None, typer.Option(min=0, help="Stop after so many prompt and new tokens.")]
BudgetMinutes: TypeAlias = Annotated[float | None, typer.Option(min=0.0, help="Stop after so many minutes.")]
MaxFailures: TypeAlias = Annotated[int | None, typer.Option(min=0, help="Stop when more rows than this have failed.")]
Grace: TypeAlias = Annotated[float, typer.Option(min=0.0, help="Seconds that rows in flight get after SIGTERM.")]
RetryFailed: TypeAlias = Annotated[bool, typer.Option("--retry-failed", help="Do failed rows again.")]
ShowProgress: TypeAlias = Annotated[bool, typer.Option(help="Show how far it is, on standard error.")]
Sample: TypeAlias = Annotated[int, typer.Option(min=1, help="Rows that run again.")]
SampleSeed: TypeAlias = Annotated[int, typer.Option("--seed", help="Of the choice of rows.")]
Row: TypeAlias = Annotated[str, typer.Argument(help="Id of a row, or its number, counted from 0.")]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

_COLUMNS = {
    "custom_id": "id_column",
    "prompt": "prompt_column",
    "messages": "messages_column",
    "sampling_params": "params_column",
    "chat_options": "chat_column",
}
_SAMPLING = ("max_tokens", "temperature", "top_p", "stop")
_ENGINE = ("model", "revision", "numerics", "backend", "max_model_len")
_RUN = ("device", "max_num_seqs", "num_threads", "overlap")


def named_values(words: list[str] | None, option: str) -> dict[str, Any]:
    """The values of NAME=JSON words; what is no JSON is a text. ConfigError for a word without a name."""
    values: dict[str, Any] = {}
    for word in words or ():
        name, sign, text = word.partition("=")
        if not name or not sign:
            raise ConfigError(f"{option} {word}: expected NAME=VALUE")
        try:
            values[name] = json.loads(text)
        except ValueError:
            values[name] = text
    return values


def job_request(given: Mapping[str, Any]) -> JobRequest:
    """What the options of `deepinfer batch run` ask for; absent ones were not given."""
    from deepinfer.batch.column_names import ColumnNames
    from deepinfer.batch.job_request import JobRequest

    columns = ColumnNames(
        **{name: given[option] for name, option in _COLUMNS.items()},
        params=_column_pairs(given.get("param_columns")),
        keep_prompts=given["keep_prompts"],
    )
    return JobRequest(
        given["input"],
        given["format"],
        columns,
        sampling=_chosen(given, _SAMPLING) | named_values(given.get("param"), "--param"),
        chat=_chosen(given, ("thinking", "effort")),
        seed=given["seed"],
        engine=_chosen(given, (*_ENGINE, *_RUN)) | named_values(given.get("engine"), "--engine"),
        token_ids=given["token_ids"],
        range_rows=given.get("range_rows"),
        max_row_bytes=given["max_row_bytes"],
    )


def engine_changes(given: Mapping[str, Any]) -> dict[str, Any]:
    """Engine options of `deepinfer batch resume`. ConfigError for one that would change results."""
    from deepinfer.batch.engine_fields import RUN_FIELDS

    changes = _chosen(given, _RUN) | named_values(given.get("engine"), "--engine")
    for name in changes:
        if name not in RUN_FIELDS:
            raise ConfigError(f"{name} cannot change once a job has begun; these can: {', '.join(RUN_FIELDS)}")
    return changes


def _chosen(given: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: given[name] for name in names if name in given}


def _column_pairs(words: list[str] | None) -> tuple[tuple[str, str], ...]:
    """(parameter, column) of NAME or NAME=COLUMN words."""
    pairs = (word.partition("=") for word in words or ())
    return tuple((name, column or name) for name, _, column in pairs)
