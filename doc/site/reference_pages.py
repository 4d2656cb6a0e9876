"""The pages on API, command line and configuration, made from the code when the documentation is built."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import Any, get_type_hints

from typer.core import TyperGroup
from typer.main import get_command

import deepinfer
from deepinfer.cli.main import app
from deepinfer.config.engine_config import EngineConfig

LEADING = ("LLM", "SamplingParams", "RequestOutput", "CompletionOutput")


def pages() -> dict[str, str]:
    """File name -> text."""
    return {"api.md": api_page(), "cli.md": cli_page(), "config.md": config_page()}


def api_page() -> str:
    """Everything that ``from deepinfer import ...`` gives."""
    names = [*LEADING, *(name for name in sorted(deepinfer.__all__) if name not in LEADING)]
    parts = ["# API\n\nWhat `from deepinfer import ...` gives. Behaviour in full: the pages on each matter.\n"]
    for name in names:
        item = getattr(deepinfer, name)
        if inspect.isclass(item):
            parts.append(_class(name, item))
    return "\n".join(parts)


def _class(name: str, item: type) -> str:
    parts = [f"## {name}\n", _block(_signature(name, item), inspect.getdoc(item) or "")]
    for member, value in vars(item).items():
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if member.startswith("_") or not inspect.isfunction(inspect.unwrap(function)) or not function.__doc__:
            continue
        head = member if isinstance(value, property) else _signature(member, function)
        parts.append(f"### {name}.{member}\n")
        parts.append(_block(head, inspect.getdoc(function) or ""))
    return "\n".join(parts)


def _signature(name: str, item: Any) -> str:
    if inspect.isclass(item) and (issubclass(item, Exception) or item.__init__ is object.__init__):
        return name
    signature = inspect.signature(item)
    parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values() if p.name != "self"]
    text = str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    if len(text) < 100:
        return f"{name}{text}"
    lines = [str(parameter) for parameter in parameters]
    kinds = [parameter.kind for parameter in parameters]
    if inspect.Parameter.KEYWORD_ONLY in kinds:
        lines.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    return f"{name}(\n" + "".join(f"    {line},\n" for line in lines) + ")"


def _block(head: str, text: str) -> str:
    return f"```python\n{head}\n```\n\n```text\n{text}\n```\n"


def cli_page() -> str:
    """Every command with its options."""
    parts = ["# Command line\n\nExit codes: 0 fine, 1 some rows failed, 2 a wrong call, 3 the engine failed.\n"]
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    for words, command in _commands("deepinfer", group):
        parts.append(f"## {words}\n\n{inspect.cleandoc(command.help or '').split(chr(10))[0]}\n")
        rows = [row for parameter in command.params if (row := _option(parameter)) is not None]
        parts += ["| option | default | |\n|---|---|---|\n" + "".join(rows)] if rows else []
    return "\n".join(parts)


def _commands(words: str, group: TyperGroup) -> Iterator[tuple[str, Any]]:
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if isinstance(command, TyperGroup):
            yield from _commands(f"{words} {name}", command)
        else:
            yield f"{words} {name}", command


def _option(parameter: Any) -> str | None:
    if "--help" in parameter.opts:
        return None
    is_argument = parameter.param_type_name == "argument"
    names = parameter.name.upper() if is_argument else ", ".join([*parameter.opts, *parameter.secondary_opts])
    default = parameter.default if isinstance(parameter.default, (str, int, float)) else None
    shown = "" if default is None or default is False else f"`{default}`"
    text = (parameter.help or "").replace("|", "\\|")
    return f"| `{names}` | {shown} | {text} |\n"


def config_page() -> str:
    """The fields of `EngineConfig` and of its groups."""
    intro = "`LLM(...)` takes every field below as a keyword; `llm.config` shows the values in force. Environment\n"
    intro += (
        "variables that give defaults: `doc/environment.md`. A model's own config is read from its `config.json`.\n"
    )
    parts = [f"# Configuration\n\n{intro}"]
    for kind in _groups(EngineConfig):
        summary, described = _documented(kind)
        parts.append(f"## {kind.__name__}\n\n{summary}\n")
        rows = []
        for field in dataclasses.fields(kind):
            has_value = field.default is not dataclasses.MISSING
            default = f"`{field.default!r}`" if has_value and not dataclasses.is_dataclass(field.default) else ""
            rows.append(f"| `{field.name}` | {default} | {described.get(field.name, '')} |\n")
        parts.append("| field | default | |\n|---|---|---|\n" + "".join(rows))
    return "\n".join(parts)


def _groups(kind: type) -> list[type]:
    """A config and the configs in its fields."""
    hints = get_type_hints(kind)
    found = [hints[field.name] for field in dataclasses.fields(kind)]
    return [kind, *(item for item in found if dataclasses.is_dataclass(item) and isinstance(item, type))]


def _documented(kind: type) -> tuple[str, dict[str, str]]:
    """First paragraph of a docstring, and what its "Attributes" say, each in one line."""
    text = inspect.getdoc(kind) or ""
    summary, _, rest = text.partition("\n\n")
    attributes = text.partition("Attributes:\n")[2].split("\n\n")[0]
    described = {}
    for entry in re.split(r"\n(?=    \w)", attributes):
        names, _, meaning = entry.strip().partition(": ")
        for name in re.split(r",\s*", names):
            described[name] = re.sub(r"\s+", " ", meaning).replace("|", "\\|")
    return " ".join(summary.split()), described
