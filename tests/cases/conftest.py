"""Engines that stay open for a module, by checkpoint and options."""

import pytest

from deepinfer import LLM, SamplingParams
from tests.support.table_tokenizer import MERGED


class Engines:
    """Starts an LLM at first use."""

    def __init__(self):
        self._open = {}

    def get(self, path, **options):
        options = {"numerics": "fp32", "max_model_len": 64, "block_size": 8, **options}
        key = (path, *sorted(options.items()))
        if key not in self._open:
            self._open[key] = LLM(path, **options)
        return self._open[key]

    def close(self):
        for llm in self._open.values():
            llm.close()


@pytest.fixture(scope="module")
def engines():
    started = Engines()
    yield started
    started.close()


@pytest.fixture(scope="module")
def table_llm(engines, table_models):
    """table_llm(table, merged=, added=, eos=, **options of LLM)"""

    def start(table, *, merged=MERGED, added=(), eos=1, **options):
        return engines.get(table_models.path(table, merged=merged, added=added, eos=eos), **options)

    return start


@pytest.fixture(scope="module")
def random_llm(engines, random_model):
    """random_llm(**options of LLM): T-RND"""
    return lambda **options: engines.get(random_model, **options)


@pytest.fixture(scope="session")
def run():
    """run(llm, prompts, params): outputs, silently; fields in place of params imply temperature 0."""

    def call(llm, prompts, params=None, **fields):
        if params is None:
            params = SamplingParams(**{"temperature": 0, **fields})
        return llm.generate(prompts, params, use_tqdm=False)

    return call
