"""From a kernel factory to a compiled kernel: target, specification, compilation, the list of all kernels."""
