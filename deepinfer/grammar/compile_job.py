"""One grammar being compiled, and who waits for it."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field

from deepinfer.core.constraint import Constraint
from deepinfer.grammar.compiled_grammar import CompiledGrammar


@dataclass(slots=True, eq=False)
class CompileJob:
    """Guarded by the compiler's lock.

    Attributes:
        constraint: what to compile.
        waiting: futures of the requests.
        started: whether a thread works on it.
        is_stuck: whether that thread was given up.
    """

    constraint: Constraint
    waiting: list[Future[CompiledGrammar]] = field(default_factory=list)
    started: bool = False
    is_stuck: bool = False

    def settle(self, outcome: CompiledGrammar | Exception) -> None:
        """Answer everybody who still waits."""
        for future in self.waiting:
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        self.waiting.clear()
