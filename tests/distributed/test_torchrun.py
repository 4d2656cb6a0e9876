"""An LLM in a world that torchrun has started."""

import json
import os
import subprocess
import sys

import pytest

from deepinfer import LLM

SCRIPT = """
import json, sys
from deepinfer import LLM
from deepinfer.errors import ConfigError
with LLM(sys.argv[1], data_parallel_size=int(sys.argv[2]), max_model_len=64) as llm:
    outputs = llm.generate([[i, 9] for i in range(3, 9)], {"max_tokens": 8, "temperature": 1.0}, use_tqdm=False)
    print(json.dumps([output.outputs[0].token_ids for output in outputs]), flush=True)
try:
    LLM(sys.argv[1], data_parallel_size=int(sys.argv[2]), max_model_len=64)
except ConfigError as error:
    print(error)
"""


def torchrun(tmp_path, model, num_replicas):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(script), str(model)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*command, str(num_replicas)], capture_output=True, text=True, env=environment, timeout=120, check=False
    )


@pytest.mark.slow
def test_torchrun_starts_the_ranks(tmp_path, random_model):
    done = torchrun(tmp_path, random_model, 2)
    assert done.returncode == 0, done.stderr
    line, second = done.stdout.splitlines()  # of rank 0 alone
    assert second.startswith("a second LLM of several ranks")
    with LLM(random_model, max_model_len=64) as llm:
        outputs = llm.generate([[i, 9] for i in range(3, 9)], {"max_tokens": 8, "temperature": 1.0}, use_tqdm=False)
    assert json.loads(line) == [output.outputs[0].token_ids for output in outputs]


@pytest.mark.slow
def test_a_world_of_another_size_is_refused(tmp_path, random_model):
    done = torchrun(tmp_path, random_model, 3)
    assert done.returncode != 0 and "torchrun has started 2 processes" in done.stderr
