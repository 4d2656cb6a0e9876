"""Structured output: from a request's `structured_outputs` to token masks."""

from deepinfer.grammar.compiler import GrammarCompiler
from deepinfer.grammar.constraint import parse_constraint

__all__ = ["GrammarCompiler", "parse_constraint"]
