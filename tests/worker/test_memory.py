"""Cache sizing: the CPU rule, a GPU's share, given bytes; changes of free memory; control groups."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from deepinfer.config.cache_config import CacheConfig
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.config.numerics import Numerics
from deepinfer.errors import ConfigError
from deepinfer.worker.host_memory import HostMemoryProbe
from deepinfer.worker.kv_cache import block_bytes, cache_table, slot_bytes
from deepinfer.worker.memory import MemoryDemand, plan_memory

GIB = 1 << 30
DATA = Path(__file__).parents[2] / "deepinfer" / "data"


class FakeProbe:
    """Gives the listed free figures one after the other."""

    def __init__(self, *free, total=None):
        self._free = list(free)
        self._total = total or max(free)

    def free_bytes(self):
        return self._free.pop(0) if len(self._free) > 1 else self._free[0]

    def total_bytes(self):
        return self._total


def _demand(name="configs/deepseek-v41-flash.json", seqs=256, length=100_000, is_cpu=False):
    config = DeepSeekV41Config.from_path(DATA / name)
    return MemoryDemand(cache_table(config, Numerics.OFFICIAL, "auto", 128), seqs, length, is_cpu)


def test_cpu_takes_what_is_needed_and_no_more():
    demand = _demand("mini", seqs=4, length=1000, is_cpu=True)
    plan = plan_memory(demand, CacheConfig(), FakeProbe(64 * GIB))
    assert (plan.num_slots, plan.num_blocks) == (4, 4 * 8)
    assert plan.total_bytes == 4 * slot_bytes(demand.table) + 32 * block_bytes(demand.table)


@pytest.mark.parametrize(("free", "budget"), [(64 * GIB, GIB), (2 * GIB, GIB // 2)])
def test_cpu_limits(free, budget):
    plan = plan_memory(_demand(is_cpu=True), CacheConfig(), FakeProbe(free))
    assert budget - plan.block_bytes < plan.total_bytes <= budget
    assert plan.num_slots * plan.slot_bytes <= budget // 2
    assert plan.num_slots < 256 and "cut from 256" in plan.explain()


def test_ranks_share_the_memory_of_a_host():
    demand = replace(_demand(is_cpu=True), num_sharing=4)
    plan = plan_memory(demand, CacheConfig(), FakeProbe(2 * GIB))
    assert plan.total_bytes <= GIB // 8 and "a quarter of the free memory over 4 ranks" in plan.explain()


def test_gpu_share_of_the_memory():
    plan = plan_memory(
        _demand(), CacheConfig(gpu_memory_utilization=0.8), FakeProbe(60 * GIB, total=100 * GIB), lambda: GIB
    )
    budget = 60 * GIB - 20 * GIB - GIB
    assert plan.num_slots == 256
    assert plan.total_bytes <= budget and "= 39.00 GiB" in plan.explain()


def test_given_bytes_are_for_blocks_alone():
    demand = _demand("mini", seqs=256, length=8192, is_cpu=True)
    plan = plan_memory(demand, CacheConfig(kv_cache_bytes=4 * block_bytes(demand.table) + 1), FakeProbe(8 * GIB))
    assert (plan.num_blocks, plan.num_slots, plan.num_tokens) == (4, 256, 512)


def test_explain_gives_the_arithmetic():
    text = plan_memory(_demand(), CacheConfig(), FakeProbe(60 * GIB, total=100 * GIB)).explain()
    for part in ("60.00 GiB", "100.00 GiB", "10%", "890 B a token", "113,920 B", "256 state slots", "together"):
        assert part in text, part


def test_case_19_growing_memory_warns_and_uses_the_smaller_figure(caplog):
    with caplog.at_level(logging.WARNING):
        plan = plan_memory(_demand(), CacheConfig(), FakeProbe(10 * GIB, 12 * GIB, total=16 * GIB), lambda: 0)
    assert "10.00 GiB" in caplog.text and "12.00 GiB" in caplog.text
    assert plan == plan_memory(_demand(), CacheConfig(), FakeProbe(10 * GIB, total=16 * GIB))


def test_case_19_without_a_profile_nothing_is_compared(caplog):
    with caplog.at_level(logging.WARNING):
        plan = plan_memory(_demand(), CacheConfig(), FakeProbe(10 * GIB, 10 * GIB + 4096, total=16 * GIB))
    assert caplog.text == "" and plan == plan_memory(_demand(), CacheConfig(), FakeProbe(10 * GIB, total=16 * GIB))


def test_case_19_shrinking_memory_is_an_error_with_the_figures():
    with pytest.raises(ConfigError) as error:
        plan_memory(_demand(), CacheConfig(), FakeProbe(10 * GIB, 4 * GIB, total=16 * GIB), lambda: 0)
    message = str(error.value)
    assert "from 10.00 GiB to 4.00 GiB" in message and "need 8.40 GiB" in message


def test_case_19_shrinking_that_leaves_enough_is_no_error():
    shrinking = FakeProbe(10 * GIB, 4 * GIB, total=16 * GIB)
    plan = plan_memory(_demand("mini", seqs=2, length=512), CacheConfig(), shrinking, lambda: 0)
    assert plan.num_blocks == 8
    noise = plan_memory(_demand(), CacheConfig(), FakeProbe(10 * GIB, 10 * GIB - 4096, total=16 * GIB), lambda: 0)
    assert noise.num_blocks > 0


@pytest.mark.parametrize("options", [CacheConfig(kv_cache_bytes=1000), CacheConfig()])
def test_case_19_zero_blocks_is_an_error_with_the_figures(options):
    with pytest.raises(ConfigError, match=r"no memory for a single cache block(.|\n)*free(.|\n)*0 blocks"):
        plan_memory(_demand(is_cpu=True), options, FakeProbe(4 << 20))


@pytest.mark.parametrize("is_cpu", [False, True])
def test_given_bytes_beyond_the_memory(is_cpu):
    for options, seqs in ((CacheConfig(kv_cache_bytes=2**40), 4), (CacheConfig(kv_cache_bytes=GIB), 2**20)):
        with pytest.raises(ConfigError, match="do not fit into the free memory"):
            plan_memory(_demand(seqs=seqs, is_cpu=is_cpu), options, FakeProbe(10 * GIB))


def _files(root, **files):
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


MEMINFO = "MemTotal:       16777216 kB\nMemFree: 1 kB\nMemAvailable:    8388608 kB\n"


def test_host_memory_without_groups(tmp_path):
    _files(tmp_path, proc__meminfo=MEMINFO)
    probe = HostMemoryProbe(tmp_path)
    assert (probe.free_bytes(), probe.total_bytes()) == (8 * GIB, 16 * GIB)


def test_host_memory_nested_v2_groups(tmp_path):
    base = tmp_path / "sys/fs/cgroup"
    _files(tmp_path, proc__meminfo=MEMINFO, proc__self__cgroup="0::/a/b\n")
    for directory, limit, used in (("a", str(4 * GIB), 3 * GIB), ("a/b", "max", GIB)):
        (base / directory).mkdir(parents=True, exist_ok=True)
        (base / directory / "memory.max").write_text(limit + "\n")
        (base / directory / "memory.current").write_text(f"{used}\n")
    (base / "a/memory.stat").write_text(f"anon 5\ninactive_file {GIB}\n")
    probe = HostMemoryProbe(tmp_path)
    assert (probe.free_bytes(), probe.total_bytes()) == (2 * GIB, 4 * GIB)


def test_host_memory_v1_group_and_no_limit(tmp_path):
    base = tmp_path / "sys/fs/cgroup/memory"
    _files(tmp_path, proc__meminfo=MEMINFO, proc__self__cgroup="4:cpu,memory:/x\n")
    (base / "x").mkdir(parents=True)
    (base / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    (base / "x/memory.limit_in_bytes").write_text(f"{GIB}\n")
    (base / "x/memory.usage_in_bytes").write_text(f"{GIB // 4}\n")
    assert HostMemoryProbe(tmp_path).free_bytes() == GIB - GIB // 4


def test_this_machine_has_memory():
    probe = HostMemoryProbe()
    assert 0 < probe.free_bytes() <= probe.total_bytes()
