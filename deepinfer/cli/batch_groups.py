"""Groups of options of ``deepinfer batch``, see `option_groups.takes`."""

from __future__ import annotations

from deepinfer.cli import batch_options as options
from deepinfer.cli.overlap_option import OverlapOption


def job(
    input: options.Input,
    output: options.Output,
    format: options.Format = "auto",
    id_column: options.IdColumn = "custom_id",
    prompt_column: options.PromptColumn = "prompt",
    messages_column: options.MessagesColumn = "messages",
    params_column: options.ParamsColumn = "sampling_params",
    chat_column: options.ChatColumn = "chat_options",
    param_columns: options.ParamColumns = None,
    keep_prompts: options.KeepPrompts = False,
    token_ids: options.TokenIds = False,
    max_tokens: options.MaxTokens = None,
    temperature: options.Temperature = None,
    top_p: options.TopP = None,
    stop: options.Stop = None,
    param: options.Params = None,
    seed: options.Seed = 0,
    thinking: options.Thinking = None,
    effort: options.Effort = None,
    model: options.Model = None,
    revision: options.Revision = None,
    numerics: options.Numerics = "official",
    backend: options.Backend = "auto",
    device: options.Device = None,
    max_model_len: options.MaxModelLen = None,
    engine: options.EngineOptions = None,
    range_rows: options.RangeRows = None,
    max_row_bytes: options.MaxRowBytes = 2**24,
) -> None:
    """What a job is, when it begins."""


def begun_job(
    directory: options.Directory,
    retry_failed: options.RetryFailed = False,
    device: options.Device = None,
    overlap: OverlapOption = None,
    engine: options.EngineOptions = None,
) -> None:
    """Which job goes on, and how."""


def work(
    max_num_seqs: options.MaxNumSeqs = None,
    num_threads: options.NumThreads = None,
    budget_tokens: options.BudgetTokens = None,
    budget_minutes: options.BudgetMinutes = None,
    max_failures: options.MaxFailures = None,
    grace: options.Grace = 10.0,
    progress: options.ShowProgress = True,
) -> None:
    """How fast, how long and how visibly a worker works."""


def report(json: options.Json = False) -> None:
    """How a command tells what it found."""
