"""Fewer rows for the consumer layers (YOCO prefill)."""
