"""The compile pool: cache, shared jobs, time limit, stuck threads, close."""

import threading
import time
from concurrent.futures import TimeoutError as FutureTimeoutError

import pytest

from deepinfer import RequestError
from deepinfer.config.engine_config import EngineConfig
from deepinfer.config.grammar_config import GrammarConfig
from deepinfer.core.constraint import Constraint
from deepinfer.envs import read_environment
from deepinfer.errors import ConfigError
from deepinfer.grammar.compiler import GrammarCompiler


class FakeGrammar:
    def __init__(self, num_bytes=10):
        self.num_bytes = num_bytes


class Library:
    """Compiles instantly; sources that start with "slow" wait for `release`, "bad" ones fail."""

    def __init__(self):
        self.calls = []
        self.release = threading.Event()

    def __call__(self, constraint):
        self.calls.append(constraint.source)
        if constraint.source.startswith("slow"):
            assert self.release.wait(30)
        if constraint.source.startswith("bad"):
            raise RuntimeError("line 1: nonsense")
        return FakeGrammar()


@pytest.fixture
def pool():
    library, compilers = Library(), []

    def make(**options):
        compilers.append(GrammarCompiler(GrammarConfig(**options), [b"a"], [], library))
        return compilers[-1], library

    yield make
    library.release.set()
    for compiler in compilers:
        compiler.close()


def regex(source):
    return Constraint("regex", source)


def num_threads():
    return sum(thread.name == "deepinfer-grammar" for thread in threading.enumerate())


def test_no_thread_before_the_first_job(pool):
    before = num_threads()
    pool()
    assert num_threads() == before


def test_equal_grammars_are_compiled_once(pool):
    compiler, library = pool()
    slow = [compiler.submit(regex("slow")) for _ in range(5)]
    library.release.set()
    results = {id(future.result(10)) for future in slow}
    assert len(results) == 1 and compiler.submit(regex("slow")).result(0) is slow[0].result()
    assert library.calls == ["slow"]


def test_without_cache_and_with_a_small_one(pool):
    compiler, library = pool(grammar_disable_cache=True)
    for _ in range(2):
        compiler.submit(regex("a")).result(10)
    assert library.calls == ["a", "a"]
    compiler, library = pool(grammar_cache_bytes=25)  # two grammars of 10 bytes
    for source in ("1", "2", "1", "3", "1", "2"):
        compiler.submit(regex(source)).result(10)
    assert library.calls[2:] == ["1", "2", "3", "2"]  # 2 was the least recently used one when 3 came


def test_errors_are_not_kept_and_carry_the_message(pool):
    compiler, library = pool()
    for _ in range(2):
        error = compiler.submit(regex("bad")).exception(10)
        assert isinstance(error, RequestError) and error.code == "grammar_error" and "nonsense" in str(error)
    assert library.calls == ["bad", "bad"]


def test_a_stuck_thread_is_replaced(pool):
    compiler, library = pool(grammar_threads=1, grammar_timeout=0.05)
    stuck = compiler.submit(regex("slow"))
    with pytest.raises(FutureTimeoutError):
        stuck.result(0.2)
    waiting = compiler.submit(regex("quick"))
    assert not waiting.done()
    error = compiler.expire(regex("slow"), stuck)
    assert error.code == "grammar_timeout" and "0.05 s" in str(error)
    assert waiting.result(10).num_bytes == 10  # in the new thread
    again = compiler.submit(regex("slow"))  # joins the job that still runs
    assert library.calls == ["slow", "quick"]
    library.release.set()
    assert again.result(10).num_bytes == 10
    compiler.close()
    deadline = time.monotonic() + 10
    while num_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert num_threads() == 0


def test_a_job_nobody_waits_for_is_not_started(pool):
    compiler, library = pool(grammar_threads=1)
    compiler.submit(regex("slow"))
    unwanted = compiler.submit(regex("unwanted"))
    compiler.withdraw(regex("unwanted"), unwanted)
    last = compiler.submit(regex("last"))
    library.release.set()
    last.result(10)
    assert library.calls == ["slow", "last"]


def test_close_ends_waiting_and_is_idempotent(pool):
    compiler, _ = pool(grammar_threads=1)
    running, waiting = compiler.submit(regex("slow")), compiler.submit(regex("other"))
    compiler.close()
    compiler.close()
    for future in (running, waiting):
        assert "closed" in str(future.exception(1))
    with pytest.raises(RequestError, match="closed"):
        compiler.submit(regex("later"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("grammar_timeout", 0),
        ("grammar_timeout", "5"),
        ("grammar_timeout", float("inf")),
        ("grammar_cache_bytes", 1.5),
        ("grammar_threads", 0),
        ("grammar_disable_cache", 1),
        ("grammar_debug", "yes"),
    ],
)
def test_wrong_options(name, value):
    with pytest.raises(ConfigError, match=name):
        GrammarConfig(**{name: value})


def test_environment_gives_the_defaults():
    values = {"TIMEOUT": "2.5", "CACHE_LIMIT_BYTES": "-1", "DISABLE_CACHE": "yes", "DEBUG": "0"}
    variables = {f"DEEPINFER_XGRAMMAR_{name}": text for name, text in values.items()} | {
        "DEEPINFER_SO_BUILDER_CPUS": "2"
    }
    config = EngineConfig.create(**read_environment(variables).fields)
    assert config.grammar == GrammarConfig(2.5, -1, True, 2, False)
    for name, text in (("XGRAMMAR_TIMEOUT", "0"), ("SO_BUILDER_CPUS", "0"), ("XGRAMMAR_DISABLE_CACHE", "2")):
        with pytest.raises(ConfigError, match=name):
            read_environment({f"DEEPINFER_{name}": text}).raise_errors()
