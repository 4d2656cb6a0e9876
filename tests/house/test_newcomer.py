""".ci/newcomer over stand-ins: README's commands in their order, then every example; whatever fails, fails it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for folder in (".ci", "examples", "bin"):
        (tmp_path / folder).mkdir()
    shutil.copy(ROOT / ".ci/newcomer", tmp_path / ".ci/newcomer")
    shutil.copy(ROOT / "README.md", tmp_path / "README.md")
    for name in ("__init__", "a", "yoco_equivalence"):
        (tmp_path / f"examples/{name}.py").write_text("")
    for name, path in (("build.sh", "build.sh"), ("python", "bin/python")):
        script = tmp_path / path
        script.write_text(f'#!/bin/sh\necho "{name} $*" >>"{tmp_path}/log"\ncase "$*" in $FAILING) exit 1 ;; esac\n')
        script.chmod(0o755)
    return tmp_path


def run(checkout: Path, failing: str = "") -> tuple[int, list[str]]:
    environment = {**os.environ, "PATH": f"{checkout}/bin:{os.environ['PATH']}", "VIRTUAL_ENV": "x", "FAILING": failing}
    done = subprocess.run([str(checkout / ".ci/newcomer")], env=environment, capture_output=True, text=True, timeout=30)
    log = checkout / "log"
    return done.returncode, log.read_text().splitlines() if log.exists() else []


def test_the_path_of_a_newcomer(checkout: Path) -> None:
    code, calls = run(checkout)
    assert code == 0
    examples = ["python examples/a.py", "python examples/yoco_equivalence.py --limit 2"]
    assert [call.strip() for call in calls] == ["build.sh run", "build.sh test", *examples]


@pytest.mark.parametrize(("failing", "num_calls"), [("run", 1), ("test", 2), ("examples/a.py", 3)])
def test_what_fails_ends_it(checkout: Path, failing: str, num_calls: int) -> None:
    code, calls = run(checkout, failing)
    assert code != 0 and len(calls) == num_calls


def test_a_readme_without_the_commands_is_an_error(checkout: Path) -> None:
    (checkout / "README.md").write_text("## Two commands\n\n    make\n\nAfterwards\n")
    assert run(checkout) == (1, [])
