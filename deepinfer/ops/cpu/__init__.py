"""The CPU backend: the op contract over native kernels (csrc/cpu)."""

from deepinfer.ops.cpu.cpu_ops import CpuOps

__all__ = ["CpuOps"]
