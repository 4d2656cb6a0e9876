"""Decode steps replayed from CUDA graphs: the same bits as launched one by one, and as component by component."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from deepinfer import LLM, SamplingParams
from deepinfer.bench.graph_nodes import count_nodes, kept_graphs
from deepinfer.worker import step_parts
from deepinfer.worker.captured_calls import CapturedCalls
from deepinfer.worker.decode_setup import static_decoder
from deepinfer.worker.eager_calls import EagerCalls
from deepinfer.worker.scratch_plan import ScratchPlan
from deepinfer.worker.static_decoder import StaticDecoder
from deepinfer.worker.static_executor import StaticExecutor
from tests.gpu.graph_pool import pool_size
from tests.gpu.slice_model import write_slice
from tests.worker.decode_chains import Resolver, check_chain
from tests.worker.linked_model import LinkedModel

NUM_LAYERS = 8
LENGTHS = (700, 40, 1200, 5, 33)
# One form of every product for all numbers of rows: else padding changes the order of sums. Components cannot run the
# linked plans of an overlapped engine, whose rows only the device knows.
OPTIONS = {"max_num_seqs": 8, "max_model_len": 4096, "kv_cache_bytes": 2**31, "batch_invariant": True, "overlap": False}


@dataclass
class Engine:
    """An engine of true layer shapes and few experts, and what runs its decode steps."""

    llm: LLM
    decoder: StaticDecoder
    calls: CapturedCalls

    def outcomes(self) -> list[Any]:
        """Tokens and log-probabilities of a few greedy texts that end one after the other."""
        rng = np.random.default_rng(5)
        prompts = [rng.integers(300, 100_000, length).tolist() for length in LENGTHS]
        params = [
            SamplingParams(temperature=0, max_tokens=count, ignore_eos=True, logprobs=5)
            for count in (20, 9, 31, 16, 24)  # steps of 5, 4, 3, 2 texts and of one
        ]
        outputs = self.llm.generate(prompts, params, use_tqdm=False, strict=True)
        return [(output.outputs[0].token_ids, output.outputs[0].logprobs) for output in outputs]


@pytest.fixture(scope="module", params=["off", {"num_drafts": 3}], ids=["plain", "drafts"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    directory = write_slice(tmp_path_factory.mktemp("slice"), n_routed_experts=32, dspark_n_routed_experts=16)
    made: list[StaticDecoder] = []

    def recorded(*arguments: Any) -> StaticDecoder | None:
        decoder = static_decoder(*arguments)
        assert decoder is not None
        made.append(decoder)
        return decoder

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_parts, "static_decoder", recorded)
        llm = LLM(directory, load_format="dummy", device="cuda", backend="cuda", speculative=request.param, **OPTIONS)
    with llm, kept_graphs():
        calls = made[0].calls
        assert isinstance(calls, CapturedCalls)
        yield Engine(llm, made[0], calls)


def test_graphs_equal_components(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    captured = engine.outcomes()
    num_graphs, rows = engine.calls.num_graphs, {key[1] for key in engine.calls._graphs if key[0] == "decode"}
    if engine.decoder.sizes.num_drafts:
        assert len(rows) > 3
    else:  # log-probabilities are the host's, so these are all graphs
        assert rows == {1, 2, 4, 8} == set(engine.decoder.row_sizes) and num_graphs == 4
    assert engine.outcomes() == captured
    assert engine.calls.num_graphs == num_graphs  # replayed, all of them
    monkeypatch.setattr(engine.decoder, "calls", EagerCalls())
    assert engine.outcomes() == captured
    monkeypatch.setattr(StaticExecutor, "takes", lambda executor, plan: False)
    assert engine.outcomes() == captured


def test_launches_of_a_step(engine: Engine) -> None:
    """A forward pass is one launch of the host's; prints how many kernels it stands for."""
    engine.outcomes()
    short = ScratchPlan.build(np.array([5], np.int32), [1], 10, 1, engine.decoder.sizes.num_lookback)
    engine.decoder._upload.send(short)  # fits into every bucket
    for key, graph in engine.calls._graphs.items():
        assert graph is not None
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            graph.replay()
            torch.cuda.synchronize()
        launches = [
            event.name for event in profiler.events() if event.name.startswith(("cudaLaunch", "cudaGraphLaunch"))
        ]
        nodes = count_nodes(graph)
        print(f"\n{key}: {dict(nodes)}, launched by {set(launches)}")
        assert len(launches) == 1
        if key[0] == "decode":
            assert nodes["kernel"] > 20 * NUM_LAYERS


def test_linked_plans(engine: Engine) -> None:
    """Chains of steps that go on from what is on the device, captured and then replayed."""
    model = engine.llm._runtime.worker.model
    if model.draft is None:
        pytest.skip("chains have drafts")
    linked = LinkedModel(model, "fp4", CapturedCalls(model.embedding.device))
    for seed in range(12):
        linked.check_chain(seed, num_links=6)


def test_resolved_rows(engine: Engine, device: torch.device) -> None:
    resolver = Resolver(device, CapturedCalls(device), engine.llm._runtime.worker.model.runtime.ops)
    for seed in range(60):
        check_chain(seed, resolver, num_links=5)


def test_graphs_share_their_memory(device: torch.device) -> None:
    """What a graph needs while it runs is there once, not once for each; prints it."""
    calls = CapturedCalls(device)
    static = torch.ones(1024, device=device)

    def work() -> None:
        large = torch.ones(2**26, device=device)
        static.add_(large[: len(static)])

    calls.run("first", work)
    before = torch.cuda.memory_reserved(device)
    for number in range(4):
        calls.run(number, work)
    grown = torch.cuda.memory_reserved(device) - before
    print(f"\n5 graphs with 256 MiB each: {grown / 2**20:.0f} MiB")
    assert grown < 2**28
    calls.run(0, work)
    assert static.unique().tolist() == [7.0]


def test_growing_graphs_share_one_piece(device: torch.device) -> None:
    """A pool that begins with the largest size does not grow with the steps; prints what one without would hold."""
    sizes = [2**20 * count for count in (12, 40, 80, 120, 160)]  # bytes
    static, taken = torch.zeros(1, device=device), []
    for pool_bytes in (0, sizes[-1]):
        calls = CapturedCalls(device, pool_bytes)
        for size in sizes:
            calls.run(size, lambda size=size: static.add_(torch.ones(size // 4, device=device)[:1]))
        torch.cuda.synchronize(device)
        taken.append(pool_size(calls))
        before = static.item()
        calls.run(sizes[1], lambda: None)
        assert static.item() == before + 1
    print(f"\ngraphs of up to 160 MiB: {taken[0] >> 20} MiB, in one piece {taken[1] >> 20} MiB")
    assert sizes[-1] <= taken[1] <= sizes[-1] + 2**22 < taken[0]


def test_without_memory_for_a_graph(device: torch.device) -> None:
    """The driver's refusal leaves the key eager, whoever refuses."""
    calls, static, num_calls = CapturedCalls(device), torch.zeros(1, device=device), 0

    def work() -> None:
        nonlocal num_calls
        num_calls += 1
        static.add_(1.0)
        if num_calls == 2:  # captured
            raise RuntimeError("CUDA error: out of memory")

    for _ in range(3):
        calls.run("key", work)
    assert calls.num_graphs == 0 and static.item() == 3.0
    calls.run("other", lambda: static.add_(1.0))
    assert calls.num_graphs == 1
