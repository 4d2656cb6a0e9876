"""Options of structured output: how grammars are compiled and how many are kept."""

from __future__ import annotations

from dataclasses import dataclass

from deepinfer.config.field_error import field_error
from deepinfer.config.field_reader import is_finite_number
from deepinfer.config.size_limits import check_range

_MAX_SECONDS = 10**6
_MAX_BYTES = 2**50
_MAX_THREADS = 1024


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
        if not is_finite_number(timeout) or not 0 < timeout <= _MAX_SECONDS:
            raise field_error("grammar_timeout", timeout, f"a number of seconds > 0, at most {_MAX_SECONDS:,}")
        check_range("grammar_cache_bytes", self.grammar_cache_bytes, -_MAX_BYTES, _MAX_BYTES)
        check_range("grammar_threads", self.grammar_threads, 1, _MAX_THREADS)
        for name in ("grammar_disable_cache", "grammar_debug"):
            if type(getattr(self, name)) is not bool:
                raise field_error(name, getattr(self, name), "True or False")
