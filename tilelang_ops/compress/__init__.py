"""Compression of token pairs into one entry."""
