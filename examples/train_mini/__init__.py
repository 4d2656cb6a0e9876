"""Trains a small model of the DeepSeek-V4.1 architecture: the recipe of the bundled checkpoint."""
