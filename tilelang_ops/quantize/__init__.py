"""Activation quantizers."""
