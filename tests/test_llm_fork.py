"""Case 30: a child forked behind a used engine works, also when the parent has OpenMP threads."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.golden_case import GOLDEN

SCRIPT = """
import os, sys, torch
from deepinfer import LLM, SamplingParams
torch.set_num_threads(2)  # outside of the engine, too
params = SamplingParams(temperature=0, max_tokens=3, ignore_eos=True)
llm = LLM(sys.argv[1], numerics="fp32", max_model_len=64, num_threads=2)
def tokens(engine):
    return engine.generate([[5] * 40], params, use_tqdm=False)[0].outputs[0].token_ids
expected = tokens(llm)
child = os.fork()
if child == 0:
    own = LLM(sys.argv[1], numerics="fp32", max_model_len=64, num_threads=2)
    os._exit(0 if tokens(llm) == tokens(own) == expected else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert tokens(llm) == expected
"""


def test_case_30_a_forked_child_of_a_used_engine_generates() -> None:
    root = Path(__file__).parents[1]
    subprocess.run(
        [sys.executable, "-c", SCRIPT, str(GOLDEN / "nano-s1")],
        check=True,
        timeout=120,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
