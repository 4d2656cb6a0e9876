#!/usr/bin/env bash
# Sets DeepInfer up and does one thing with it.
#   ./build.sh          set up (virtual environment, pinned packages, C++ extension) and stop
#   ./build.sh run      set up, then run the offline example on the bundled model
#   ./build.sh test     set up, then all C++ and Python tests (extra words go to pytest)
#   ./build.sh lint     set up, then every linter
# An active virtual environment is used as it is; otherwise .venv is made. PYTHON chooses the interpreter.
set -euo pipefail
cd "$(dirname "$0")"

say() { printf '==> %s\n' "$*"; }
die() { printf 'build.sh: %s\n' "$*" >&2; exit 1; }

use_environment() {
  if [ -z "${VIRTUAL_ENV:-}" ]; then
    if [ ! -x .venv/bin/python ]; then
      local base=${PYTHON:-python3}
      command -v "$base" >/dev/null || die "no $base found; install Python 3.11 or newer, or set PYTHON"
      "$base" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2])' ||
        die "$("$base" --version) is too old; DeepInfer needs Python 3.11 or newer (set PYTHON to one)"
      say "making the virtual environment .venv with $("$base" --version)"
      "$base" -m venv .venv
    fi
    VIRTUAL_ENV=$PWD/.venv
  fi
  export VIRTUAL_ENV PATH="$VIRTUAL_ENV/bin:$PATH"
  export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
  say "environment: $VIRTUAL_ENV ($(python --version))"
}

# Installs with the extras named, unless this environment already has exactly that.
set_up() {
  local extras=$1 stamp key
  stamp=$VIRTUAL_ENV/.deepinfer$extras
  key=$(cat constraints.txt pyproject.toml setup.py $(find csrc/core csrc/bindings csrc/cpu -type f 2>/dev/null | sort) | sha256sum)-$PWD
  if [ "$(cat "$stamp" 2>/dev/null)" = "$key" ] && ls deepinfer/_C*.so >/dev/null 2>&1; then
    say "packages and extension are up to date"
    return
  fi
  command -v "${CXX:-g++}" >/dev/null || die "no C++20 compiler found; install g++ 12 or newer, or set CXX"
  say "installing build tools"
  python -m pip install -q -c constraints.txt setuptools wheel pybind11
  say "installing pinned packages and building deepinfer._C (a few minutes the first time)"
  python -m pip install -q -c constraints.txt --no-build-isolation -e ".$extras"
  printf '%s' "$key" >"$stamp"
}

cpp_tests() {
  if ! echo '#include <doctest/doctest.h>' | "${CXX:-g++}" -std=c++20 -E -x c++ - >/dev/null 2>&1; then
    say "installing the C++ test library (doctest)"
    local apt="apt-get"
    [ "$(id -u)" = 0 ] || apt="sudo -n apt-get"
    { $apt update -qq && $apt install -y -qq doctest-dev; } >/dev/null 2>&1 ||
      die "the C++ tests need doctest: install the package doctest-dev"
  fi
  say "C++ tests"
  cmake -S . -B build/cpp -DCMAKE_BUILD_TYPE=RelWithDebInfo >build/cmake.log 2>&1 || { cat build/cmake.log; exit 1; }
  cmake --build build/cpp -j "$(nproc)" >>build/cmake.log 2>&1 || { cat build/cmake.log; exit 1; }
  ctest --test-dir build/cpp --output-on-failure
}

run_linters() {
  say "ruff"; ruff check . && ruff format --check .
  say "mypy"; mypy
  say "import layers"; lint-imports
  say "clang-format"; find csrc -name '*.[ch]pp' -print0 | xargs -0 clang-format --dry-run --Werror
  say "codespell"; codespell
  say "sizes and names"; python tests/house/check_sizes.py
}

use_environment
case "${1:-}" in
  "") set_up "" ;;
  run) set_up "" ; say "examples/offline_inference.py"; python examples/offline_inference.py "${@:2}" ;;
  test) set_up "[dev]"; mkdir -p build; cpp_tests; say "Python tests"; python -m pytest "${@:2}" ;;
  lint) set_up "[dev]"; run_linters ;;
  *) die "unknown command '$1' (run, test, lint, or nothing)" ;;
esac
