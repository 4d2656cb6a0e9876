"""Builds the native module deepinfer._C; everything else about the package is in pyproject.toml."""

from __future__ import annotations

from glob import glob

from pybind11.setup_helpers import ParallelCompile, Pybind11Extension
from setuptools import setup

ParallelCompile("DEEPINFER_BUILD_JOBS").install()

NATIVE_MODULE = Pybind11Extension(
    "deepinfer._C",
    sorted(glob("csrc/core/*.cpp") + glob("csrc/bindings/*.cpp")),
    include_dirs=["csrc"],
    depends=sorted(glob("csrc/core/*.hpp") + glob("csrc/bindings/*.hpp")),
    cxx_std=20,
    extra_compile_args=["-O2", "-fvisibility=hidden", "-Wall", "-Wextra"],
)

setup(ext_modules=[NATIVE_MODULE])
