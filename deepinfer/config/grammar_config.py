"""Options of structured output: how grammars are compiled and how many are kept."""

from __future__ import annotations

import math
from dataclasses import dataclass

from deepinfer.config.field_error import field_error


@dataclass(frozen=True, slots=True)
class GrammarConfig:
    """Validated on construction.

    Attributes:
        grammar_timeout: seconds from a request's arrival until its grammar must be compiled, > 0.
        grammar_cache_bytes: compiled grammars kept, in bytes; <= 0: without limit.
        grammar_disable_cache: every grammar is compiled anew.
        grammar_threads: compile threads at most, >= 1. They start with the first structured request.
        grammar_debug: log every compilation.
    """

    grammar_timeout: float = 20.0
    grammar_cache_bytes: int = 10 * 2**30
    grammar_disable_cache: bool = False
    grammar_threads: int = 4
    grammar_debug: bool = False

    def __post_init__(self) -> None:
        timeout = self.grammar_timeout
        if type(timeout) not in (int, float) or timeout <= 0 or not math.isfinite(timeout):
            raise field_error("grammar_timeout", timeout, "a number of seconds > 0")
        if type(self.grammar_cache_bytes) is not int:
            raise field_error("grammar_cache_bytes", self.grammar_cache_bytes, "an integer (<= 0: without limit)")
        if type(self.grammar_threads) is not int or self.grammar_threads < 1:
            raise field_error("grammar_threads", self.grammar_threads, "an integer >= 1")
        for name in ("grammar_disable_cache", "grammar_debug"):
            if type(getattr(self, name)) is not bool:
                raise field_error(name, getattr(self, name), "True or False")
