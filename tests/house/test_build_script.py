"""build.sh over stand-ins for Python, pip and the compilers: what it runs, and what it does not run again."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "build.sh"
STAND_IN = """#!/bin/sh
echo "$(basename "$0") $*" >>"{log}"
case "$*" in
  --version) echo "Python 3.11.0" ;;
  *tomllib*) echo "pytest ruff" ;;
  *sys.version,*) echo "{identity}" ;;
  *sys.version_info*) exit {too_old} ;;
  *"-e ."*) touch deepinfer/_C.fake.so; {install} ;;
esac
"""


class Checkout:
    """A folder with build.sh, an empty project and stand-ins on the path."""

    def __init__(self, root: Path) -> None:
        self.root, self.bin, self.log = root, root / "bin", root / "calls.log"
        for folder in ("bin", "deepinfer", "csrc/core", "csrc/bindings", "csrc/cpu", "tests/house", "active/bin"):
            (root / folder).mkdir(parents=True)
        shutil.copy(SCRIPT, root / "build.sh")
        for name in ("constraints.txt", "pyproject.toml", "setup.py", "csrc/core/a.cpp"):
            (root / name).write_text(name)
        for name in ("g++", "cmake", "ctest", "python3"):
            self.stand_in(self.bin / name)
        self.stand_in(root / "active/bin/python")

    def stand_in(self, path: Path, identity: str = "3.11", too_old: int = 0, install: str = "true") -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(STAND_IN.format(log=self.log, identity=identity, too_old=too_old, install=install))
        path.chmod(0o755)

    def run(self, *arguments: str, active: bool = True, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": f"{self.bin}:{os.environ['PATH']}", **variables}
        if active:
            environment["VIRTUAL_ENV"] = str(self.root / "active")
        command = [str(self.root / "build.sh"), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30)

    def calls(self, part: str) -> int:
        return sum(part in line for line in self.log.read_text().splitlines()) if self.log.exists() else 0


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@pytest.mark.parametrize(("word", "code"), [("--help", 0), ("-h", 0), ("frobnicate", 2)])
def test_usage_comes_at_once(checkout: Checkout, word: str, code: int) -> None:
    done = checkout.run(word, active=False)
    assert done.returncode == code and "./build.sh test" in (done.stderr if code else done.stdout)
    assert not checkout.log.exists() and not (checkout.root / ".venv").exists()


def test_the_extension_is_built_once_for_all_commands(checkout: Checkout) -> None:
    for command in ((), ("run",), ("test", "-k", "x"), ("run",), ("test",)):
        done = checkout.run(*command)
        assert done.returncode == 0, done.stderr
    assert checkout.calls("-e .") == 1 and checkout.calls("install -c constraints.txt pytest ruff") == 1
    assert checkout.calls("-m pytest -k x") == 1
    (checkout.root / "csrc/core/a.cpp").write_text("changed")
    assert checkout.run().returncode == 0
    assert checkout.calls("-e .") == 2


def test_bridges_have_packages_of_their_own(checkout: Checkout) -> None:
    assert checkout.run("bridges").returncode == 0 and checkout.run("bridges").returncode == 0
    assert checkout.calls("install -c constraints.txt pytest ruff") == 3  # of dev, eval and ray, once
    assert checkout.calls("-m pytest -m bridge tests/integrations") == 2
    assert checkout.run("docs").returncode == 0 and checkout.calls("-m mkdocs build --strict") == 1


def test_what_pip_says_about_a_failure_is_shown(checkout: Checkout) -> None:
    checkout.stand_in(checkout.root / "active/bin/python", install="echo 'The conflict is caused by: a'; exit 1")
    for _ in range(2):  # a failed set-up is not taken for a done one
        done = checkout.run()
        assert done.returncode == 1 and "The conflict is caused by: a" in done.stderr


def test_python_chooses_the_interpreter_of_a_new_environment_only(checkout: Checkout) -> None:
    checkout.stand_in(checkout.root / ".venv/bin/python")
    assert checkout.run(active=False).returncode == 0
    assert checkout.run(active=False, PYTHON=str(checkout.bin / "python3")).returncode == 0
    checkout.stand_in(checkout.bin / "other", identity="3.13")
    done = checkout.run(active=False, PYTHON=str(checkout.bin / "other"))
    assert done.returncode == 1 and "remove .venv" in done.stderr
    assert "is not used" in checkout.run(PYTHON="python3").stdout


def test_an_old_python_is_refused(checkout: Checkout) -> None:
    checkout.stand_in(checkout.bin / "old", too_old=1)
    done = checkout.run(active=False, PYTHON=str(checkout.bin / "old"))
    assert done.returncode == 1 and "3.11 or newer" in done.stderr
