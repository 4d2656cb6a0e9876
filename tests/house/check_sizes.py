"""House rules that no off-the-shelf linter checks: sizes and names. Run by `./build.sh lint`."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MAX_LINES = {"tilelang_ops": 500}
DEFAULT_MAX_LINES = 400
MAX_FUNCTION_LINES = 40
MAX_PARAMETERS = 5
VAGUE_NAMES = {"utils.py", "common.py", "misc.py", "helpers.py"}
# Folders whose functions may be longer or take more, with the reason.
LONG_FUNCTIONS = {
    "tilelang_ops/": "kernel bodies",
    "deepinfer/ops/cuda/": "kernel bodies",
    "tests/": "a scenario is told in one piece",
}
MANY_PARAMETERS = {
    "deepinfer/ops/": "an op's signature is its tensors",
    "tilelang_ops/": "kernel bodies",
    "deepinfer/cli/": "a command's parameters are its options",
    "deepinfer/llm.py": "keyword options of the public class",
    "examples/train_mini/pieces/": "a piece's signature is its tensors",
    "tests/": "parametrized cases and fixtures",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def listed_files(root: Path) -> list[str]:
    """Sources that git tracks or would track."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py", "*.cpp", "*.hpp"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    return [name for name in listed.stdout.split() if (root / name).exists()]


def problems(root: Path) -> list[str]:
    """One line per offence."""
    found = []
    for name in listed_files(root):
        text = (root / name).read_text(encoding="utf-8")
        num_lines = len(text.splitlines())
        limit = MAX_LINES.get(name.split("/")[0], DEFAULT_MAX_LINES)
        if num_lines > limit:
            found.append(f"{name}: {num_lines} lines, at most {limit}")
        if Path(name).name in VAGUE_NAMES:
            found.append(f"{name}: name the thing, not the drawer")
        if name.endswith(".py"):
            found += function_problems(name, text)
    return found


def function_problems(name: str, text: str) -> list[str]:
    """One line per function of a Python file that is too long or takes too much.

    A docstring does not count as length. Constructors take what they need.
    """
    found = []
    for path, function in _functions(ast.parse(text), ""):
        num_lines = _num_lines(function)
        if num_lines > MAX_FUNCTION_LINES and not name.startswith(tuple(LONG_FUNCTIONS)):
            found.append(f"{name}:{path}: {num_lines} lines, at most {MAX_FUNCTION_LINES}")
        num_parameters = _num_parameters(function)
        is_free = function.name == "__init__" or name.startswith(tuple(MANY_PARAMETERS))
        if num_parameters > MAX_PARAMETERS and not is_free:
            found.append(f"{name}:{path}: {num_parameters} parameters, at most {MAX_PARAMETERS}")
    return found


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield prefix + child.name, child
            yield from _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        else:
            yield from _functions(child, prefix)


def _num_lines(function: Function) -> int:
    first = function.body[0]
    in_docstring = _span(first) if ast.get_docstring(function) is not None else 0
    return _span(function) - in_docstring


def _span(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _num_parameters(function: Function) -> int:
    arguments = function.args
    names = [item.arg for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


if __name__ == "__main__":
    offences = problems(Path(__file__).parents[2])
    print("\n".join(offences) or "sizes and names are fine")
    sys.exit(bool(offences))
