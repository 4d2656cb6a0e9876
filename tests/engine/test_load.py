"""What an engine says about its load: `LLM.stats()` and the log line."""

import json
import logging

import pytest

from deepinfer import LLM, SamplingParams
from deepinfer.core.launched_step import LaunchedStep
from deepinfer.engine.load_meter import LoadMeter
from deepinfer.engine.recent_load import RecentLoad
from tests.support.golden_case import GOLDEN
from tests.support.table_engine import TableEngine

GREEDY = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)


class Part:
    """Half a step on the device, milliseconds."""

    def __init__(self, begin: int, end: int) -> None:
        self.span = (begin * 1_000_000, end * 1_000_000)


def step(begin: int, forwarded: int, sampling: int, end: int) -> LaunchedStep:
    return LaunchedStep(Part(begin, forwarded), Part(sampling, end))  # type: ignore[arg-type]


def test_meter_counts_waits_between_and_inside_steps_but_no_rests() -> None:
    meter = LoadMeter()
    assert meter.recent(0.0, 0) == RecentLoad(0, None, None, None)
    meter.book(step(100, 104, 105, 106))  # 5 busy, 1 idle
    meter.book(step(109, 113, 113, 114))  # 5 busy, 3 idle
    meter.rest()
    meter.book(step(900, 904, 904, 910))  # 10 busy
    assert (meter.device_seconds, meter.device_idle_seconds) == (0.020, 0.004)
    recent = meter.recent(0.5, 30)
    assert recent.num_steps == 3 and recent.tokens_per_second == 60
    assert recent.host_gap_ms == pytest.approx(4 / 3) and recent.device_idle_share == pytest.approx(4 / 24)


def test_meter_forgets_what_is_long_ago() -> None:
    meter = LoadMeter()
    meter.book(step(0, 1, 1, 1000))
    assert not meter.is_due(0.9) and meter.is_due(1.0)
    meter.mark(1.0, 100)
    assert not meter.is_due(1.9)
    meter.book(step(1000, 1001, 1001, 2000))
    assert meter.recent(2.0, 300).tokens_per_second == 150  # the first stretch still counts
    meter.mark(2.0, 300)
    meter.book(step(3000, 3001, 3001, 4000))
    recent = meter.recent(3.0, 400)
    assert (recent.num_steps, recent.tokens_per_second) == (2, 150)
    assert recent.device_idle_share == pytest.approx(1000 / 3000)


@pytest.mark.parametrize("overlap", [False, True])
def test_stats_of_both_loops(overlap: bool) -> None:
    with LLM(GOLDEN / "nano-s1", numerics="fp32", backend="cpu", overlap=overlap, max_num_seqs=2) as llm:
        before = llm.stats()
        assert before.host_gap_ms is None and before.device_idle_share is None and before.recent.num_steps == 0
        llm.generate([[5, 6], [7]], GREEDY, use_tqdm=False)
        stats = llm.stats()
        again = llm.stats()
    assert stats.to_dict() == again.to_dict()  # nothing runs, nothing grows
    assert 0 < stats.device_seconds < stats.step_seconds
    assert 0 <= stats.device_idle_share < 1 and stats.host_gap_ms >= 0 and stats.host_ms_per_step > 0
    assert stats.recent.num_steps > 2 and stats.recent.tokens_per_second > 0 and stats.kv_use == 0
    assert json.loads(json.dumps(stats.to_dict()))["recent"]["num_steps"] == stats.recent.num_steps


@pytest.mark.usefixtures("overlaps")
def test_stats_and_log_lines_of_running_requests(caplog: pytest.LogCaptureFixture) -> None:
    engine = TableEngine.build(max_num_seqs=2, num_blocks=16)
    engine.engine._log_interval = 2
    deltas = engine.batch([[10], [11], [12]], GREEDY, streaming=True).deltas()
    with caplog.at_level(logging.INFO, logger="deepinfer.engine.llm_engine"):
        next(deltas)
        stats = engine.engine.stats()
        list(deltas)
    assert (stats.num_running, stats.num_waiting) == (2, 1)
    assert stats.kv_use == 2 / 16 and stats.acceptance is None
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0].startswith("step 1 (decode, 2 rows): 2 running, 1 waiting, KV 12.5%, ")
    assert all("tokens/s" in line and "ms/step, device idle" in line for line in lines)
    assert "acceptance" not in lines[0]
