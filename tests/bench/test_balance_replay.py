"""Recorded routing, its file, and EPLB replayed over it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deepinfer.bench.balance_replay import BalanceReplay
from deepinfer.bench.load_file import read_loads, write_loads
from deepinfer.bench.routing_recorder import record_routing
from deepinfer.errors import ConfigError
from deepinfer.llm import LLM
from deepinfer.sampling_params import SamplingParams
from tests.distributed.eval_routing import eval_routing
from tests.support.golden_case import GOLDEN


def test_every_decoded_token_counts_once_for_each_of_its_experts(tmp_path: Path):
    prompts = [[3, 4, 5], [6, 7], [8, 9, 10, 11]]
    params = SamplingParams(temperature=0.0, max_tokens=4, ignore_eos=True)
    with LLM(str(GOLDEN / "nano-s1"), numerics="fp32", backend="cpu", speculative="off", max_num_seqs=2) as llm:
        loads = record_routing(llm, prompts, params, batch=2, num_experts=64)
        with llm.capture("layers.0.ffn.experts") as tap:
            (output,) = llm.generate([prompts[2]], params, use_tqdm=False)
    per_token = tap.tensor("layers.0.ffn.experts", output.request_id).shape[1]
    assert loads.shape[0] == 3 + 3  # two batches; the fourth token is never fed
    assert np.all(loads[:3].sum(axis=2) == 2 * per_token) and np.all(loads[3:].sum(axis=2) == per_token)
    chosen = tap.tensor("layers.0.ffn.experts", output.request_id).numpy()[len(prompts[2]) :]
    assert [sorted(np.flatnonzero(step)) for step in loads[3:, 0]] == [sorted(row) for row in chosen.tolist()]
    write_loads(tmp_path / "loads.npz", loads)
    assert np.array_equal(read_loads(tmp_path / "loads.npz"), loads)


def test_replay_of_recorded_routing():
    loads = eval_routing()
    replay = BalanceReplay.run(loads, 8, 8, interval=32, window=64)
    print(replay.ratios, replay.num_moves)
    assert replay.ratios["hindsight"] < replay.ratios["online"] < replay.ratios["initial"]
    assert np.allclose(replay.means, loads.sum(axis=(1, 2)) / 8)
    assert np.array_equal(replay.online[:8], replay.initial[:8])  # a quarter of the interval comes first
    assert len(replay.num_moves) == 6 and all(replay.num_moves)
    assert replay.plot().svg().count("<polyline") == 3
    assert replay.to_dict()["num_steps"] == len(loads)


def test_short_and_empty_recordings():
    one = BalanceReplay.run(np.ones((1, 2, 4), np.int64), 2, 0, interval=8, window=8)
    assert one.ratios == {"initial": 1.0, "online": 1.0, "hindsight": 1.0} and one.num_moves == ()
    idle = BalanceReplay.run(np.zeros((5, 1, 4), np.int64), 4, 0, interval=2, window=1)
    assert set(idle.ratios.values()) == {0.0}


@pytest.mark.parametrize("content", ["text", "other", "floats", "flat", "empty"])
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, content: str):
    path = tmp_path / "wrong.npz"
    arrays = {
        "other": {"counts": np.ones((1, 1, 1), int)},
        "floats": {"loads": np.ones((1, 1, 1))},
        "flat": {"loads": np.ones(3, int)},
        "empty": {"loads": np.ones((0, 2, 3), int)},
    }
    if content == "text":
        path.write_text("no archive")
    else:
        np.savez(path, **arrays[content])
    with pytest.raises(ConfigError, match="wrong.npz"):
        read_loads(path)
