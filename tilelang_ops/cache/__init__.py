"""Vectors of the caches: quantize, store, and read back."""
