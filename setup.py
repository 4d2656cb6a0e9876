"""Builds the native module deepinfer._C; everything else about the package is in pyproject.toml."""

from __future__ import annotations

from glob import glob
from pathlib import Path
from typing import Any

from pybind11.setup_helpers import ParallelCompile, Pybind11Extension
from setuptools import setup
from setuptools.command.build_ext import build_ext

ParallelCompile("DEEPINFER_BUILD_JOBS").install()

FOLDERS = ("csrc/core", "csrc/cpu", "csrc/cpu/ops", "csrc/cpu/model", "csrc/bindings", "csrc/bindings/cpu")
# Only these files may use more than the base instruction set; the kernels are chosen at run time.
# -O3 unrolls the kernels' short loops, so that their accumulators are registers; scalar ones would only become large.
AVX2_FLAGS = ["-O3", "-mavx2", "-mfma", "-mf16c"]
AVX512_FLAGS = [
    *(*AVX2_FLAGS, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl"),
    *("-Wno-maybe-uninitialized", "-Wno-uninitialized"),  # false alarms in the intrinsics' headers of gcc 12
]
FILE_FLAGS = {
    "kernels_avx2.cpp": AVX2_FLAGS,
    "kernels_avx512.cpp": AVX512_FLAGS,
    "kernels_avx512_bf16.cpp": [*AVX512_FLAGS, "-mavx512vbmi", "-mavx512bf16"],
}

NATIVE_MODULE = Pybind11Extension(
    "deepinfer._C",
    sorted(source for folder in FOLDERS for source in glob(f"{folder}/*.cpp")),
    include_dirs=["csrc"],
    depends=sorted(glob("csrc/**/*.hpp", recursive=True)),
    cxx_std=20,
    extra_compile_args=["-O2", "-ffp-contract=off", "-fvisibility=hidden", "-Wall", "-Wextra"],
)


class BuildWithFileFlags(build_ext):
    """`build_ext` that adds the flags of FILE_FLAGS to single files."""

    def build_extensions(self) -> None:
        compile_file = self.compiler._compile

        def compile_with_flags(obj: str, src: str, *options: Any) -> None:
            ext, cc_args, postargs, pp_opts = options
            compile_file(obj, src, ext, cc_args, [*postargs, *FILE_FLAGS.get(Path(src).name, [])], pp_opts)

        self.compiler._compile = compile_with_flags
        super().build_extensions()


setup(ext_modules=[NATIVE_MODULE], cmdclass={"build_ext": BuildWithFileFlags})
