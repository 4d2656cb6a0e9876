"""``deepinfer``: the command line.

Exit codes: 0 fine, 1 some prompts failed, 2 usage, 3 the engine failed, 4 a batch job can go on later.
"""

from __future__ import annotations

import importlib
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

import deepinfer
from deepinfer.cli.output_guard import guarded_output

# command -> (module, function or group of commands); loaded when called, so that none pays for another's imports
_COMMANDS = {
    "generate": ("deepinfer.cli.generate", "generate"),
    "chat": ("deepinfer.cli.chat", "chat"),
    "batch": ("deepinfer.cli.batch", "app"),
    "inspect": ("deepinfer.cli.inspect", "inspect"),
    "env": ("deepinfer.cli.env", "env"),
    "bench": ("deepinfer.cli.bench", "app"),
    "trace": ("deepinfer.cli.trace", "app"),
    "calibrate": ("deepinfer.cli.calibrate", "calibrate"),
    "explain": ("deepinfer.cli.batch", "explain"),
    "check": ("deepinfer.cli.check", "check"),
    "eval": ("deepinfer.cli.eval", "evaluate"),
    "experts": ("deepinfer.cli.experts", "app"),
    "plan-parallel": ("deepinfer.cli.plan_parallel", "plan_parallel"),
    "warmup": ("deepinfer.cli.warmup", "warmup"),
}


class _LazyCommands(TyperGroup):
    """Finds commands in the table above."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Runs a command; output that cannot be written ends it in order."""
        with guarded_output():
            return super().main(*args, **kwargs)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | TyperGroup | None:
        if cmd_name not in _COMMANDS:
            return None
        module, function = _COMMANDS[cmd_name]
        found = getattr(importlib.import_module(module), function)
        if not isinstance(found, typer.Typer):
            single = typer.Typer(add_completion=False)
            single.command(cmd_name)(found)
            found = single
        command = get_command(found)
        assert isinstance(command, (TyperCommand, TyperGroup))
        return command


app = typer.Typer(cls=_LazyCommands, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"deepinfer {deepinfer.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Offline inference for DeepSeek-V4.1-Flash."""


if __name__ == "__main__":
    app()
