"""The CPU backend: the op contract over native kernels (csrc/cpu); `cpu_ops.py` puts it together."""
