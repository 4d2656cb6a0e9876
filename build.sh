#!/usr/bin/env bash
# Sets DeepInfer up and does one thing with it.
#   ./build.sh          set up (virtual environment, pinned packages, C++ extension) and stop
#   ./build.sh run      set up, then run the offline example on the bundled model
#   ./build.sh test     set up, then all C++ and Python tests (further words go to pytest)
#   ./build.sh lint     set up, then every linter
#   ./build.sh bridges  set up, then the tests that need lm-eval and Ray (200 MB of packages)
#   ./build.sh docs     set up, then build the documentation site into build/site
#   ./build.sh kernels  set up, then compile every GPU kernel for SM90 and SM100 (needs nvcc, no GPU)
#   ./build.sh sanitize the C++ tests alone, with the address and undefined-behaviour sanitizers, then with the thread's
# An active virtual environment is used as it is; otherwise .venv is made, with the interpreter that PYTHON names
# (python3). Needed: Linux, Python 3.11 or newer, a C++20 compiler (g++ 12 or newer); for the tests doctest
# (apt-get install doctest-dev). Everything may be repeated: what is there already is kept.
set -euo pipefail
cd "$(dirname "$0")"

say() { printf '==> %s\n' "$*"; }
die() { printf 'build.sh: %s\n' "$*" >&2; exit 1; }
usage() { sed -n '2,/^set /{/^# /s/^# //p}' build.sh; }

use_environment() {
  if [ -n "${VIRTUAL_ENV:-}" ]; then
    [ -z "${PYTHON:-}" ] || say "PYTHON=$PYTHON is not used: the virtual environment $VIRTUAL_ENV is active"
  else
    [ ! -x .venv/bin/python ] || [ -z "${PYTHON:-}" ] || require_same_python
    [ -x .venv/bin/python ] || make_environment "${PYTHON:-python3}"
    VIRTUAL_ENV=$PWD/.venv
  fi
  export VIRTUAL_ENV PATH="$VIRTUAL_ENV/bin:$PATH"
  export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
  say "environment: $VIRTUAL_ENV ($(python --version))"
}

make_environment() {
  command -v "$1" >/dev/null || die "no $1 found; install Python 3.11 or newer, or set PYTHON"
  "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2])' ||
    die "$("$1" --version) is too old; DeepInfer needs Python 3.11 or newer (set PYTHON to one)"
  say "making the virtual environment .venv with $("$1" --version)"
  "$1" -m venv .venv
}

# PYTHON chooses the interpreter of a new environment; one that is there keeps its own.
require_same_python() {
  local question='import sys; print(sys.version, sys.base_prefix)'
  [ "$("$PYTHON" -c "$question" 2>/dev/null)" = "$(.venv/bin/python -c "$question")" ] ||
    die "PYTHON=$PYTHON, but .venv was made with $(.venv/bin/python --version): remove .venv to make it anew"
}

# Says everything that pip said when it fails, and nothing otherwise.
pip_install() {
  mkdir -p build
  python -m pip install -c constraints.txt "$@" >build/pip.log 2>&1 || { tail -n 60 build/pip.log >&2; die "pip failed"; }
}

# is_done NAME KEY / done_with NAME KEY: whether a part of the set-up has been done for this state of the sources.
is_done() { [ "$(cat "$VIRTUAL_ENV/.deepinfer-$1" 2>/dev/null)" = "$2" ]; }
done_with() { printf '%s' "$2" >"$VIRTUAL_ENV/.deepinfer-$1"; }

# The package with its extension, and the extras that are named ("dev": tests and linters, "gpu": kernels).
set_up() {
  local packages sources extra
  packages=$(cat constraints.txt pyproject.toml | sha256sum)
  sources=$(cat setup.py $(find csrc/core csrc/bindings csrc/cpu -type f | sort) | sha256sum)-$packages-$PWD
  if ! is_done build "$sources" || ! ls deepinfer/_C*.so >/dev/null 2>&1; then
    command -v "${CXX:-g++}" >/dev/null || die "no C++20 compiler found; install g++ 12 or newer, or set CXX"
    say "installing build tools"
    pip_install setuptools wheel pybind11
    say "installing pinned packages and building deepinfer._C (a few minutes the first time)"
    pip_install --no-build-isolation -e .
    done_with build "$sources"
  fi
  for extra in "$@"; do
    if is_done "$extra" "$packages"; then continue; fi
    say "installing the packages of the extra [$extra]"
    pip_install $(python -c 'import sys, tomllib
print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"][sys.argv[1]])' "$extra")
    done_with "$extra" "$packages"
  done
  say "packages and extension are up to date"
}

require_doctest() {
  if echo '#include <doctest/doctest.h>' | "${CXX:-g++}" -std=c++20 -E -x c++ - >/dev/null 2>&1; then return; fi
  say "installing the C++ test library (apt-get install doctest-dev)"
  local apt="apt-get"
  [ "$(id -u)" = 0 ] || apt="sudo -n apt-get"
  { $apt update -qq && $apt install -y -qq doctest-dev; } >/dev/null 2>&1 ||
    die "the C++ tests need doctest: apt-get install doctest-dev, or put doctest/doctest.h on CPLUS_INCLUDE_PATH"
}

# cpp_tests FOLDER [SANITIZERS [FURTHER WORDS OF CTEST]]
cpp_tests() {
  mkdir -p build
  require_doctest
  say "C++ tests${2:+ with the sanitizers $2}"
  cmake -S . -B "$1" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DDEEPINFER_SANITIZE="${2:-}" >build/cmake.log 2>&1 ||
    { cat build/cmake.log; exit 1; }
  cmake --build "$1" -j "$(nproc)" >>build/cmake.log 2>&1 || { cat build/cmake.log; exit 1; }
  ctest --test-dir "$1" --output-on-failure "${@:3}"
}

# Without three long simulations (minutes): the other tests of drafts run the same code.
sanitize() {
  cpp_tests build/asan address,undefined -E "at least 98%"
  cpp_tests build/tsan thread -E "at least 98%"
}

compile_kernels() {
  command -v nvcc >/dev/null || [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ] ||
    die "no nvcc found; install the CUDA toolkit (13.0), or set CUDA_HOME"
  say "GPU kernels for sm_90a and sm_100a"
  python -m deepinfer warmup --arch sm_90a,sm_100a --check --jobs "$(nproc)" \
    deepinfer/data/mini deepinfer/data/configs/deepseek-v41-flash.json
  python -m tests.doc.kernel_table --check || die "doc/kernels.md is out of date: python -m tests.doc.kernel_table"
}

run_linters() {
  say "ruff"
  ruff check .
  ruff format --check .
  say "mypy"; mypy
  say "import layers"; lint-imports
  say "clang-format"; find csrc -name '*.[ch]pp' -print0 | xargs -0 clang-format --dry-run --Werror
  say "codespell"; codespell
  say "sizes and names"; python tests/house/check_sizes.py
}

case "${1:-}" in
  "") use_environment; set_up ;;
  run) use_environment; set_up; say "examples/offline_inference.py"; python examples/offline_inference.py "${@:2}" ;;
  test) use_environment; set_up dev; cpp_tests build/cpp; say "Python tests"; python -m pytest "${@:2}" ;;
  docs) use_environment; set_up docs; python -m mkdocs build --strict --quiet; say "build/site/index.html" ;;
  bridges) use_environment; set_up dev eval ray; python -m pytest -m bridge tests/integrations ;;
  sanitize) sanitize ;;
  lint) use_environment; set_up dev; run_linters ;;
  kernels) use_environment; set_up gpu; compile_kernels ;;
  -h | --help | help) usage ;;
  *) printf "build.sh: unknown command '%s'\n" "$1" >&2; usage >&2; exit 2 ;;
esac
