"""Models and matchers of the structured-output tests."""

import numpy as np
import pytest

from deepinfer import LLM
from deepinfer.grammar.constraint import parse_constraint
from deepinfer.grammar.xgrammar_backend import XGrammarBackend

EOS = 257


@pytest.fixture(scope="session")
def structured_llm():
    """The bundled model, for tests that read its outputs."""
    with LLM() as llm:
        yield llm


@pytest.fixture(scope="session")
def byte_backend():
    """The grammar library over 256 byte tokens, BOS 256, EOS 257 and a second EOS 258."""
    return XGrammarBackend([bytes([byte]) for byte in range(256)] + [b""] * 3, [EOS, 258])


@pytest.fixture(scope="session")
def accepts(byte_backend):
    """accepts(structured_outputs, text) -> whether the grammar takes the whole text as a value."""

    compiled = {}

    def judge(given, text):
        constraint = parse_constraint(given, 259)
        if constraint.key not in compiled:
            compiled[constraint.key] = byte_backend.compile(constraint)
        matcher = compiled[constraint.key].new_matcher(constraint)
        data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        return all(matcher.accept(byte) for byte in data) and matcher.is_complete

    return judge


def allowed_ids(matcher, num_ids=259):
    """Ids that may come next."""
    mask = np.zeros(-(-num_ids // 32), np.int32)
    if not matcher.fill_mask(mask):
        return set(range(num_ids))
    return set(np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")[:num_ids]).tolist())
