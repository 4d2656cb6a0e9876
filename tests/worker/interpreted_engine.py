"""An overlapped engine whose decode steps end on the device, in Triton's interpreter, beside a synchronous one.

Run with TRITON_INTERPRET=1.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from deepinfer import LLM, SamplingParams
from tests.speculative.table_drafts import DRAFT, target_table
from tests.support.static_engine import static_engine
from tests.support.table_model import TableModels

OPTIONS: dict[str, Any] = {
    "backend": "cpu",
    "numerics": "fp32",
    "max_model_len": 40,
    "block_size": 4,
    "max_num_seqs": 4,
    "max_prefill_chunk": 11,
    "batch_invariant": False,
    "speculative": {"acceptance": "rejection"},
}
PROMPTS = [[5, 6, 10], [20], list(range(3, 20)), [4, 4]]
PLAIN = [
    SamplingParams(temperature=0, max_tokens=7, ignore_eos=True),
    SamplingParams(temperature=1.0, max_tokens=6, seed=3, stop_token_ids=[50, 1, 2]),
    SamplingParams(temperature=0.7, max_tokens=5, seed=4, n=2),
]
# Steps of this one are the host's, until it is over.
ASKING = SamplingParams(temperature=0.8, max_tokens=3, seed=5, logprobs=1)


def tokens_of(llm: LLM) -> list[list[list[int]]]:
    outputs = llm.generate(PROMPTS, [*PLAIN, ASKING], use_tqdm=False, strict=True)
    return [[choice.token_ids for choice in output.outputs] for output in outputs]


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = TableModels(Path(directory)).path(target_table(), draft=DRAFT)
        with LLM(path, overlap=False, **OPTIONS) as llm:
            expected, before = tokens_of(llm), llm.stats()
        with (
            pytest.MonkeyPatch.context() as patch,
            static_engine(patch, with_kernels=True) as steps,
            LLM(path, overlap=True, **OPTIONS) as llm,
        ):
            profiler = llm._runtime.worker.profiler
            assert profiler.draft_ms(2) > 0
            got, stats = tokens_of(llm), llm.stats()
    assert got == expected, (got, expected)
    assert stats.num_drafts_accepted == before.num_drafts_accepted > 0
    assert steps.num_padded + steps.num_whole > steps.num_chosen > 3 and steps.num_linked > 2
    print("equal")


if __name__ == "__main__":
    main()
