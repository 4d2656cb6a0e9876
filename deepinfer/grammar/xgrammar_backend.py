"""The grammar library itself: tokenizer tables and compilation. Imported with the first structured request."""

from __future__ import annotations

import re
from collections.abc import Sequence

import xgrammar

from deepinfer.core.constraint import Constraint
from deepinfer.grammar.compiled_grammar import CompiledGrammar
from deepinfer.grammar.grammar_error import grammar_error
from deepinfer.grammar.token_guard import TokenGuard


class XGrammarBackend:
    """Compiles constraints for one tokenizer; thread-safe.

    Args:
        pieces: bytes of every token; empty for those that may not stand in a value (special tokens).
        eos_token_ids: every id that ends a sequence.
    """

    def __init__(self, pieces: Sequence[bytes], eos_token_ids: Sequence[int]) -> None:
        stop_ids = [token_id for token_id in eos_token_ids if token_id < len(pieces)]
        info = xgrammar.TokenizerInfo(
            list(pieces), xgrammar.VocabType.RAW, vocab_size=len(pieces), stop_token_ids=stop_ids
        )
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self._json_guard = TokenGuard(pieces, stop_ids, for_json=True)
        self._text_guard = TokenGuard(pieces, stop_ids, for_json=False)
        self._num_ids = len(pieces)

    def compile(self, constraint: Constraint) -> CompiledGrammar:
        """Compile; raises RequestError "grammar_error" with the library's message."""
        try:
            guard = self._json_guard if constraint.kind == "json" else self._text_guard
            compiled = CompiledGrammar(self._compiled(constraint), guard, self._num_ids)
        except RuntimeError as error:
            raise grammar_error(f"{constraint.kind}: {_message(error)}") from error
        if not compiled.can_start:
            raise grammar_error(f"{constraint.kind}: the grammar accepts no text at all")
        return compiled

    def _compiled(self, constraint: Constraint) -> xgrammar.CompiledGrammar:
        if constraint.kind == "regex":
            return self._compiler.compile_regex(constraint.source)
        if constraint.kind == "ebnf":
            return self._compiler.compile_grammar(constraint.source)
        limit = constraint.whitespace_limit
        if limit == 0:
            return self._compiler.compile_json_schema(constraint.source, any_whitespace=False, separators=(",", ":"))
        return self._compiler.compile_json_schema(constraint.source, max_whitespace_cnt=limit)


def _message(error: RuntimeError) -> str:
    """Without the library's time stamp and source line."""
    return re.sub(r"^\[[\d:]+\] \S+?:\d+: ", "", str(error)).strip()
