"""Sparse attention over packed key=value vectors."""
