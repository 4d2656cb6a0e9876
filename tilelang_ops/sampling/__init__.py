"""Sampling on the GPU, in Triton: argmax, filters and draws, judging of drafts, grammar masks."""
