"""Steps computed in two halves give what whole ones give, to the last bit."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from deepinfer import LLM
from deepinfer.config.parallel_config import ParallelConfig
from deepinfer.core.half_point import half_point
from deepinfer.core.probe import Probe
from deepinfer.core.step_batch import StepBatch
from deepinfer.distributed.batch_split import BatchSplit
from deepinfer.distributed.take_turns import take_turns
from deepinfer.errors import ConfigError
from deepinfer.profile.step_trace import StepTrace
from deepinfer.worker.batch_builder import build_batch
from deepinfer.worker.kv_cache import allocate_caches, cache_table
from tests.cli.test_main import invoke
from tests.distributed import rank_engine
from tests.distributed.equal_outputs import OPTIONS, check, requests, spread
from tests.distributed.rank_world import RankWorld
from tests.worker.decode_chains import BLOCK_SIZE, BLOCKS, DRAFTS, LOOKBACK, MAX_LEN, SEQS, plan_of


def split(num_ranks, **others):
    return spread(num_ranks, num_ranks, two_batch_overlap="on", **others)


def test_one_rank_has_one_long_prompt(world2, random_model):
    """It cannot be cut: in the other half that rank has no rows."""
    options = {"numerics": "official", "backend": "cpu"}
    check(world2, str(random_model), split(2, num_redundant_experts=3), options, [0, 0, 0, 1])


def test_two_ranks_that_share_rows_too(world2, random_model):
    sizes = {"context_parallel_size": 2, "expert_parallel_size": 2, "two_batch_overlap": "on"}
    check(world2, str(random_model), sizes, {"numerics": "fp32", "yoco": "compact"}, [0, 0, 0, 0])


def test_a_trace_shows_what_one_half_computes_while_rows_of_the_other_travel(world2, random_model, tmp_path):
    options = OPTIONS | {"numerics": "fp32"}
    case = rank_engine.RankCase(str(random_model), split(2), options, requests(4), [0, 1, 1, 0])
    parts = world2.run(rank_engine.trace_rank, case)
    trace = StepTrace([replace(span, rank=rank) for rank, part in enumerate(parts) for span in part.spans])
    for rank in (0, 1):
        spans = trace.of_rank(rank).spans
        by_half = {half: [s for s in spans if s.lane == f"exchange {half}"] for half in (1, 2)}
        names = {half: {span.name for span in found} for half, found in by_half.items()}
        assert names == {half: {f"dispatch, half {half}", f"combine, half {half}"} for half in (1, 2)}
        computed = [span for span in spans if span.lane == "halves" and span.name.startswith("compute")]
        for half, flights in by_half.items():
            others = [span for span in computed if span.details["half"] != half]
            assert any(a.begin < b.end and b.begin < a.end for a in flights for b in others), (rank, half)
        own = [span for span in spans if span.lane == "halves"]
        own.sort(key=lambda span: span.begin)
        assert all(one.end <= other.begin for one, other in zip(own, own[1:], strict=False))  # one thread
    file = tmp_path / "trace.json"
    trace.write(file)
    assert "exchanges between ranks" in invoke("trace", "summary", str(file))
    events = json.loads(file.read_text())["traceEvents"]
    shown = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert {"rank 0, device", "rank 1, device"} <= shown


@pytest.mark.slow
@pytest.mark.parametrize("numerics", ["fp32", "official"])
@pytest.mark.parametrize("drafts", [None, "off"])
def test_three_ranks(random_model, numerics, drafts):
    with RankWorld(3) as world:
        for yoco in ("off", "compact", "mask"):
            options = {"numerics": numerics, "speculative": drafts, "yoco": yoco}
            sizes = split(3, engram_parallel_size=3, num_redundant_experts=1, expert_rebalance_interval=3)
            check(world, str(random_model), sizes, options, [0, 1, 1, 1, 0, 2])


def test_halves_of_one_rank_and_a_fault_in_one(random_model, monkeypatch):
    options = {"backend": "cpu", "numerics": "fp32", "max_model_len": MAX_LEN, "block_size": BLOCK_SIZE}
    with LLM(random_model, **options) as llm:
        model = llm._runtime.worker.model
        table = cache_table(model.runtime.config, model.runtime.numerics, "float32", BLOCK_SIZE, DRAFTS)
        caches = [allocate_caches(table, SEQS * BLOCKS, SEQS, torch.device("cpu")) for _ in range(2)]
        plan = plan_of(np.random.default_rng(3), [0, 9, 4], [1, 0, 2])
        rows = np.arange(len(plan.token_ids))
        batch = build_batch(plan, rows, LOOKBACK + 1, torch.device("cpu"))
        halves = batch.halves(rows)
        whole = model.forward([batch], caches[0], Probe())
        assert torch.equal(model.forward(halves, caches[1], Probe()), whole)
        for mine, theirs in zip(caches[0].window.values(), caches[1].window.values(), strict=True):
            assert torch.equal(mine.data, theirs.data)
        follow, calls = model.layers[2].ffn_hc.follow, []

        def fail_in_the_second_half(*args):
            calls.append(args)
            return follow(*args) if len(calls) == 1 else 1 // 0

        monkeypatch.setattr(model.layers[2].ffn_hc, "follow", fail_in_the_second_half)
        with pytest.raises(ZeroDivisionError):
            model.forward(halves, caches[1], Probe())


@pytest.mark.parametrize(
    ("lengths", "first"),
    [([], 0), ([9], 1), ([1, 1], 1), ([5, 4, 3], 1), ([2, 1, 3, 3], 2), ([1, 1, 1, 50], 3), ([50, 1, 1], 1)],
)
def test_sequences_are_cut_where_rows_are_halved(lengths, first):
    assert half_point(np.asarray(lengths, dtype=np.int64)) == first


def test_halves_of_a_batch():
    lengths, rows = np.array([3, 1, 2]), torch.arange(6)
    per_seq = {
        name: np.arange(3)
        for name in ("starts", "state_slots", "first_blocks", "window_starts", "entry_starts", "consumer_starts")
    }
    wanted = np.array([2, 3, 5])
    batch = StepBatch(rows, rows + 10, rows, rows[:, None], torch.from_numpy(wanted), lengths, **per_seq)
    first, second = batch.halves(wanted)
    assert (first.positions.tolist(), second.positions.tolist()) == ([10, 11, 12], [13, 14, 15])
    assert (first.logit_rows.tolist(), second.logit_rows.tolist()) == ([2], [0, 2])
    assert (first.lengths.tolist(), second.state_slots.tolist()) == ([3], [1, 2])
    assert first.halves(np.array([2]))[1] is None


def test_who_splits():
    """All hear the same votes; the rank with the most decides."""
    many, few = np.array([3000, 2500]), np.array([700])
    for mode, ranks, device, expected in (
        ("off", 4, "cuda", False),
        ("auto", 8, "cuda", True),
        ("auto", 4, "cuda", False),  # 4,096 rows in each half are asked for
        ("auto", 2, "cpu", True),
        ("on", 2, "cuda", True),
        ("on", 1, "cpu", False),
    ):
        each = [BatchSplit(mode, ranks, device) for _ in range(2)]
        votes = [each[0].vote(many), each[1].vote(few)]
        for one in each:
            one.agree(votes)
            assert one.is_on is expected, (mode, ranks, device)
            one.agree([0, 0])
            assert not one.is_on
    assert [BatchSplit("auto", 4, "cpu", sharing).vote(many) for sharing in (1, 2, 4)] == [2500, 1250, 625]
    assert BatchSplit("on", 4, "cpu", 4).vote(np.array([1, 1])) == 1  # two sequences are enough
    with pytest.raises(ConfigError, match="two_batch_overlap = 'always'"):
        ParallelConfig(two_batch_overlap="always")


class Part:
    """Notes its turns."""

    def __init__(self, name, turns, notes, error=None):
        self.name, self.turns, self.notes, self.error = name, turns, notes, error

    def run(self):
        try:
            for turn in range(self.turns):
                self.notes.append(f"{self.name}{turn}")
                yield None
            if self.error is not None:
                raise self.error
            return self.name
        finally:
            self.notes.append(f"{self.name} ends")


def test_turns_are_taken_in_order():
    notes = []
    assert take_turns([Part("a", 2, notes).run(), Part("b", 3, notes).run(), Part("c", 0, notes).run()]) == list("abc")
    assert notes == ["a0", "b0", "c ends", "a1", "b1", "a ends", "b2", "b ends"]
    assert take_turns([]) == []


def test_an_error_of_one_ends_the_other():
    notes = []
    with pytest.raises(ZeroDivisionError):
        take_turns([Part("a", 3, notes).run(), Part("b", 1, notes, ZeroDivisionError()).run()])
    assert notes == ["a0", "b0", "a1", "b ends", "a ends"]
