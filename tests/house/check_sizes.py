"""House rules that no off-the-shelf linter checks: file length and file names. Run by `./build.sh lint`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MAX_LINES = {"tilelang_ops": 500}
DEFAULT_MAX_LINES = 400
VAGUE_NAMES = {"utils.py", "common.py", "misc.py", "helpers.py"}


def problems(root: Path) -> list[str]:
    """One line per offence among the files that git tracks or would track."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py", "*.cpp", "*.hpp"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    found = []
    for name in listed.stdout.split():
        path = root / name
        if not path.exists():
            continue
        num_lines = len(path.read_text(encoding="utf-8").splitlines())
        limit = MAX_LINES.get(name.split("/")[0], DEFAULT_MAX_LINES)
        if num_lines > limit:
            found.append(f"{name}: {num_lines} lines, at most {limit}")
        if path.name in VAGUE_NAMES:
            found.append(f"{name}: name the thing, not the drawer")
    return found


if __name__ == "__main__":
    offences = problems(Path(__file__).parents[2])
    print("\n".join(offences) or "file sizes and names are fine")
    sys.exit(bool(offences))
