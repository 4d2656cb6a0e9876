"""Predicts how fast a model decodes on several GPUs, from kernels measured on one."""
