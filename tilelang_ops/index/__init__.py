"""Choosing the compressed entries that a row attends to: scores, candidate blocks, top-k."""
