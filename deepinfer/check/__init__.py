"""Judges a backend by the reference, op by op, on the inputs of a real run."""
