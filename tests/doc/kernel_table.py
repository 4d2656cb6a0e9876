"""The table of doc/kernels.md, from the kernels themselves: ``python -m tests.doc.kernel_table`` rewrites it.

With ``--check`` it only says, by its exit code, whether the table is up to date. Needs tilelang and triton, but no
GPU and no compiler.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from types import ModuleType

from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.ops.cuda.model_sizes import model_sizes
from tests.doc.memory_plan import CONFIG, ROOT
from tilelang_ops.jit.arch import ARCHES
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.registry import kernel_specs
from tilelang_ops.jit.triton_spec import TritonSpec

FILE = ROOT / "doc" / "kernels.md"
BEGIN, END = "<!-- table: begin -->\n", "<!-- table: end -->\n"
BLOCK_SIZE = 128


def module_of(spec: KernelSpec | TritonSpec) -> ModuleType:
    """The file that has the kernel's body."""
    made_by = spec.kernel.fn if isinstance(spec, TritonSpec) else spec.factory
    return importlib.import_module(made_by.__module__)


def computes(module: ModuleType) -> str:
    """What a file says that it is for."""
    sentence = " ".join((inspect.getdoc(module) or "").split("\n\n")[0].split())
    return sentence.removesuffix(".").replace("|", "\\|").replace("``", "`")


def table() -> str:
    config = DeepSeekV41Config.from_path(CONFIG)
    by_name: dict[str, KernelSpec | TritonSpec] = {}
    for spec in kernel_specs(model_sizes(config, BLOCK_SIZE, config.dspark_block_size)):
        by_name.setdefault(spec.name, spec)
    columns = f"| kernel | computes | file | {' | '.join(ARCHES)} | note |"
    lines = [columns, "|---|---|---|" + "---|" * len(ARCHES) + "---|"]
    for name, spec in by_name.items():
        module = module_of(spec)
        file = module.__name__.removeprefix("tilelang_ops.").replace(".", "/")
        wanted = " | ".join(spec.instructions.get(arch, "") for arch in ARCHES)
        note = "Triton" if isinstance(spec, TritonSpec) else spec.note
        lines.append(f"| `{name}` | {computes(module)} | `{file}.py` | {wanted} | {note} |")
    return "\n".join(lines) + "\n"


def rewritten(text: str) -> str:
    head, rest = text.split(BEGIN)
    return head + BEGIN + table() + END + rest.split(END)[1]


def main(arguments: list[str]) -> int:
    text = FILE.read_text(encoding="utf-8")
    if arguments == ["--check"]:
        return int(text != rewritten(text))
    FILE.write_text(rewritten(text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
