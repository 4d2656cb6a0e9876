"""Runs lm-evaluation-harness tasks that are described by files of this machine, without any download."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deepinfer.config.strict_json import shown_path
from deepinfer.errors import ConfigError, UnsupportedFeatureError
from deepinfer.llm import LLM

_OFFLINE = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "HF_EVALUATE_OFFLINE")


def require_harness() -> None:
    """Let the harness's libraries load, told to stay offline. UnsupportedFeatureError, that says what to install."""
    for name in _OFFLINE:
        os.environ.setdefault(name, "1")
    try:
        import lm_eval.tasks  # noqa: F401
    except ImportError as error:
        raise UnsupportedFeatureError("harness tasks need lm-eval: pip install 'deepinfer[eval]'") from error


def run_harness(llm: LLM, task_files: Sequence[Path], limit: int | None = None, chat: bool = False) -> dict[str, Any]:
    """Evaluate a model on tasks.

    Args:
        llm: the model.
        task_files: YAML files of tasks. Data files that they name are looked up beside them.
        limit: documents of each task at most.
        chat: whether documents become conversations in the model's prompt format.

    Returns:
        What ``lm_eval.simple_evaluate`` returns: "results" by task name, "samples" by task name, and more.

    Raises:
        UnsupportedFeatureError: the harness is not installed.
        ConfigError: a file that is no task.
    """
    require_harness()
    import lm_eval
    from lm_eval.tasks import TaskManager

    from deepinfer.integrations.lm_eval import DeepInferLM

    manager = TaskManager(include_defaults=False)  # reading the harness's own tasks takes seconds
    tasks = [_load(manager, path) for path in task_files]
    results = lm_eval.simple_evaluate(
        DeepInferLM(llm), tasks=tasks, limit=limit, apply_chat_template=chat, task_manager=manager
    )
    assert results is not None, "only other processes of a distributed run get nothing"
    return results


def _load(manager: Any, path: Path) -> Any:
    try:
        with contextlib.chdir(path.resolve().parent):
            found = manager.load([path.name])["tasks"]
        (task,) = found.values()
    except Exception as error:  # a task file may be wrong in any way
        raise ConfigError(
            f"{shown_path(path)} is no task that can be loaded: {type(error).__name__}: {error}"
        ) from error
    return task
