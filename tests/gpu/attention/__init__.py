"""Attention kernels against the reference."""
