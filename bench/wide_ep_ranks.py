"""What the ranks of `bench/wide_ep.py` do when they are told to: engines, steps, exchanges, moves of weights."""

from __future__ import annotations

import functools
import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from deepinfer import SamplingParams
from deepinfer.config.engine_config import EngineConfig
from deepinfer.core.quantized_weight import QuantizedWeight
from deepinfer.distributed.expert_balancer import ExpertBalancer
from deepinfer.distributed.expert_exchange import ExpertExchange
from deepinfer.distributed.expert_placement import ExpertPlacement
from deepinfer.distributed.place_table import PlaceTable
from deepinfer.distributed.rank_comm import RankComm
from deepinfer.distributed.row_bytes import row_bytes
from deepinfer.distributed.row_packing import RowPacking
from deepinfer.distributed.static_exchange import StaticExchange
from deepinfer.distributed.take_turns import take_turns
from deepinfer.engine.runtime import EngineRuntime
from deepinfer.envs import read_environment
from tests.distributed.rank_engine import groups_of
from tests.distributed.rank_world import device_of

WARM = 3
SKIPPED = 4  # steps at either end of a run: prefill, first steps of a graph, steps that a loop ends with


@functools.cache
def kept() -> dict[str, Any]:
    """What this rank keeps from call to call."""
    return {}


def open_engine(rank: int, device: str, model: str | None, sizes: dict[str, int], options: dict[str, Any]) -> dict:
    """Load; without `sizes` every rank an engine by itself."""
    close_engine(rank)
    begin, place = time.perf_counter(), device_of(device, rank)
    groups = None if not sizes else groups_of(rank, tuple(sizes.items()), place)
    config = EngineConfig.create(model=model, device=str(place), **options | sizes)
    kept()["runtime"] = runtime = EngineRuntime.build(config, read_environment(), groups=groups)
    kept()["leads"] = groups is None or rank % groups.sizes.context_parallel_size == 0
    report = {"load_s": time.perf_counter() - begin, "blocks": runtime.worker.memory_plan.num_blocks}
    if place.type == "cuda":
        report["gib"] = torch.cuda.memory_allocated(place) / 2**30
    return report


def close_engine(_rank: int) -> None:
    """Give its memory back."""
    runtime = kept().pop("runtime", None)
    if runtime is not None:
        runtime.engine.close()
    del runtime
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def generate(rank: int, count: int, length: int, num_tokens: int) -> dict[str, Any]:
    """`count` prompts of `length` on every rank that takes requests, to their end: seconds, and ms of each step."""
    runtime: EngineRuntime = kept()["runtime"]
    numbers = np.random.default_rng(rank)
    params = SamplingParams(temperature=0, max_tokens=num_tokens, ignore_eos=True)
    highest = min(100_000, runtime.worker.model.vocab_size - 8)
    for number in range(count if kept()["leads"] else 0):
        ids = numbers.integers(min(300, highest // 2), highest, length).tolist()
        encoded = runtime.encoder.encode({"prompt_token_ids": ids})
        runtime.engine.add_request(runtime.inputs.generation(str(number), number, encoded, params))
    steps, errors = [], []
    wait_for_device(rank)
    begin = last = time.perf_counter()
    while True:
        ready = runtime.engine.step()
        now = time.perf_counter()
        steps.append((now - last) * 1e3)
        last = now
        while ready.finished:
            output = ready.finished.popleft()
            errors += [str(output.error)] if output.error else []
        if runtime.engine.is_idle:
            break
    assert not errors, errors[0]
    return {"seconds": time.perf_counter() - begin, "step_ms": steps}


def decode(rank: int, batch: int, length: int, num_tokens: int) -> dict[str, float]:
    """Median of the decode steps of one run, behind one that warms up."""
    for _ in range(2):
        generate(rank, batch, length, 2 * SKIPPED)
    steps = generate(rank, batch, length, num_tokens)["step_ms"][1 + SKIPPED : num_tokens - SKIPPED]
    return {"step_ms": statistics.median(steps), "p90_ms": sorted(steps)[int(len(steps) * 0.9)], "steps": len(steps)}


def prefill(rank: int, count: int, length: int, repeats: int) -> float:
    """Median seconds until all prompts have their first token."""
    generate(rank, count, length, 1)
    return statistics.median(generate(rank, count, length, 1)["seconds"] for _ in range(repeats))


def links(rank: int, device: str, num_ranks: int, sizes: list[int]) -> list[dict[str, float]]:
    """All-to-all, and sends around a ring, of so many bytes a rank: microseconds, and GB/s that a rank sends."""
    comm, place, found = comm_of(rank, device, num_ranks), device_of(device, rank), []
    for num_bytes in sizes:
        each = num_bytes // num_ranks
        rows = torch.zeros((each * num_ranks, 1), dtype=torch.uint8, device=place)
        away = torch.empty(each * (num_ranks - 1), dtype=torch.uint8, device=place)
        split = [each] * num_ranks
        spread = microseconds(place, functools.partial(comm.exchange_rows, rows, split, split))
        following, before = (rank + 1) % num_ranks, (rank - 1) % num_ranks
        ring = microseconds(
            place, functools.partial(comm.move, [(following, away)], [(before, torch.empty_like(away))])
        )
        sent = each * (num_ranks - 1)
        found.append(
            {
                "bytes": num_bytes,
                "all_to_all_us": spread,
                "all_to_all_gb_s": sent / spread / 1e3,
                "ring_us": ring,
                "ring_gb_s": sent / ring / 1e3,
            }
        )
    return found


def exchange(rank: int, device: str, num_ranks: int, shape: dict[str, int], rows: int) -> dict[str, float]:
    """One layer's dispatch and combine without experts, and all-to-alls of the same bytes (the floor)."""
    comm, place = comm_of(rank, device, num_ranks), device_of(device, rank)
    spread = ExpertExchange(comm, shape["n_routed_experts"], 0, place)
    packing = RowPacking(shape["hidden_size"], quantize=True, act_dtype=torch.bfloat16)
    x, ids, weights = random_rows(rank, place, shape, rows)
    halves: list[list[float]] = []

    def no_experts(rows: torch.Tensor, slots: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        wait_for_device(rank)
        halves[-1].append(time.perf_counter())
        return rows

    for _ in range(WARM + 12):
        wait_for_device(rank)
        halves.append([time.perf_counter()])
        take_turns([spread.run(spread.begin(ids), x, weights, packing, no_experts)])
        wait_for_device(rank)
        halves[-1].append(time.perf_counter())
    whole = [times for times in halves[WARM:] if len(times) == 3] or [[0.0] * 3]  # a rank may get nothing of few rows
    dispatch, combine = (statistics.median(times[i + 1] - times[i] for times in whole) * 1e6 for i in (0, 1))
    floors = exchange_floors(comm, place, spread, packing, (x, ids, weights))
    return {"dispatch_us": dispatch, "combine_us": combine, **floors}


def random_rows(
    rank: int, place: torch.device, shape: dict[str, int], rows: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Activations, picks and their weights of a layer, other ones on each rank."""
    dim, top_k, num_experts = shape["hidden_size"], shape["num_experts_per_tok"], shape["n_routed_experts"]
    numbers = torch.Generator().manual_seed(rank)
    ids = torch.rand((rows, num_experts), generator=numbers).topk(top_k).indices.to(place)
    x = torch.randn((rows, dim), generator=numbers).to(torch.bfloat16).to(place)
    return x, ids, torch.rand((rows, top_k), generator=numbers).to(place)


def exchange_floors(
    comm: RankComm,
    place: torch.device,
    spread: ExpertExchange,
    packing: RowPacking,
    inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
) -> dict[str, float]:
    """All-to-alls of exactly what dispatch and combine send, all counts known."""
    x, ids, weights = inputs
    owners = spread.table.places(ids) // spread.placement.slots_per_rank
    rows_out = [int((owners == rank).any(1).sum()) for rank in range(comm.size)]
    pairs_back = [int((owners == rank).sum()) for rank in range(comm.size)]
    rows_in, pairs_out = comm.exchange_counts(torch.tensor([rows_out, pairs_back]).T.contiguous()).T.tolist()
    width = packing.pack(x[:1], ids[:1], weights[:1]).shape[1]
    sent = torch.zeros((sum(rows_out), width), dtype=torch.uint8, device=place)
    back = torch.zeros((sum(pairs_out), 2 * x.shape[1]), dtype=torch.uint8, device=place)
    away = 1 - 1 / comm.size
    return {
        "dispatch_bytes": sent.numel() * away,
        "combine_bytes": back.numel() * away,
        "dispatch_floor_us": microseconds(place, lambda: comm.exchange_rows(sent, rows_out, rows_in)),
        "combine_floor_us": microseconds(place, lambda: comm.exchange_rows(back, pairs_out, pairs_back)),
    }


def static_exchange(rank: int, device: str, num_ranks: int, shape: dict[str, int], rows: int) -> dict[str, float]:
    """The same of decode steps, whose shapes do not depend on where rows go: replayed from a CUDA graph on a GPU."""
    comm, place = comm_of(rank, device, num_ranks), device_of(device, rank)
    dim, top_k, num_experts = shape["hidden_size"], shape["num_experts_per_tok"], shape["n_routed_experts"]
    placement = ExpertPlacement.initial(1, num_experts, ExpertPlacement.round_up(num_experts, 0, num_ranks), num_ranks)
    spread = StaticExchange(comm, PlaceTable(placement, comm.rank, False, place), placement.slots_per_rank, place)
    packing = RowPacking(dim, quantize=False, act_dtype=torch.bfloat16)
    inputs = random_rows(rank, place, shape, rows)
    is_real = torch.ones(rows, dtype=torch.bool, device=place)
    outputs = torch.zeros((num_ranks * rows * top_k, dim), dtype=torch.bfloat16, device=place)
    packed, back = packing.pack(*inputs), row_bytes(outputs)
    call = replayed(place, lambda: spread.run(inputs, is_real, lambda *_, likely: outputs))
    return {
        "static_us": microseconds(place, call),
        "static_floor_us": microseconds(place, replayed(place, lambda: comm.gather_evenly(packed)))
        + microseconds(place, replayed(place, lambda: comm.exchange_evenly(back))),
        "static_bytes": (packed.numel() * (num_ranks - 1)) + back.numel() * (1 - 1 / num_ranks),
    }


def replayed(place: torch.device, call: Callable[[], Any]) -> Callable[[], Any]:
    """The call as one CUDA graph; itself on a CPU."""
    if place.type != "cuda":
        return call
    with torch.inference_mode():
        call()
        torch.cuda.synchronize(place)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
    return graph.replay


@torch.inference_mode()
def rank_experts(rank: int, num_ranks: int, rows: int) -> dict[str, float]:
    """What a layer's experts take on one of `num_ranks` ranks with `rows` rows each, by this GPU alone, which computes
    the share of one rank after the other: `picked_us` of the rank that takes longest, `shared_us` with the sum of a
    row's outputs. Means over the layers of an engine that has all experts, with its routers, for random rows.
    """
    model = kept()["runtime"].worker.model
    runtime, moes = model.runtime, list(model.moes().values())
    config, ops, place, act = runtime.config, runtime.ops, moes[0].gate_weight.device, runtime.act_dtype
    options = {"limit": config.swiglu_limit, "quantize": runtime.quantize, "act_dtype": act}
    numbers = torch.Generator().manual_seed(rank)
    x = torch.randn((num_ranks * rows, config.hidden_size), generator=numbers).to(act).to(place)
    top_k, num_slots = config.num_experts_per_tok, -(-config.n_routed_experts // num_ranks)
    own, parts = x[:rows], torch.zeros((rows, top_k, config.hidden_size), dtype=act, device=place)
    none = (torch.empty((rows, 0), dtype=torch.int64, device=place), torch.empty((rows, 0), device=place))

    def picked_us(moe: Any) -> float:
        rule = {"top_k": top_k, "scaling": config.routed_scaling_factor, "normalize": config.norm_topk_prob}
        picks, times = ops.route(x, moe.gate_weight, moe.gate_bias, **rule), []
        for first in range(0, config.n_routed_experts, num_slots):
            share = slice(first, first + num_slots)
            stacks = [QuantizedWeight(w.codes[share], w.scales[share], w.format) for w in (moe.w1, moe.w3, moe.w2)]
            slots = torch.where(picks.ids // num_slots == first // num_slots, picks.ids - first, -1)
            call = functools.partial(ops.moe, x, slots, picks.weights, *stacks, None, **options, likely=rows * top_k)
            times.append(microseconds(place, replayed(place, call)))
        return max(times)

    def shared_parts() -> None:
        for moe in moes:
            shared = ops.moe(own, *none, moe.w1, moe.w3, moe.w2, moe.shared, **options)
            ops.sum_experts(parts, shared)

    shared_us = microseconds(place, replayed(place, shared_parts)) / len(moes)
    return {"picked_us": statistics.mean(map(picked_us, moes)), "shared_us": shared_us}


def shuffle(rank: int, share: float) -> dict[str, float]:
    """Move weights of the engine's layers so that about `share` of all places get another expert."""
    runtime: EngineRuntime = kept()["runtime"]
    exchanges = [moe.exchange for moe in runtime.worker.model.moes().values() if moe.exchange is not None]
    count = max(exchange.num_experts for exchange in exchanges)
    exchanges = [exchange for exchange in exchanges if exchange.num_experts == count]
    comm = exchanges[0]._comm
    balancer, numbers = ExpertBalancer(comm, exchanges, 2**20, 1), np.random.default_rng(7)  # alike on all ranks
    rows = np.concatenate([exchange.placement.physical_to_logical for exchange in exchanges])
    for row in rows:
        chosen = numbers.choice(len(row), int(share * len(row)), replace=False)
        row[chosen] = row[numbers.permutation(chosen)]
    wait_for_device(rank)
    begin = time.perf_counter()
    num_moved = balancer.move(ExpertPlacement.of_physical(rows, count, comm.size))
    wait_for_device(rank)
    seconds = time.perf_counter() - begin
    each = sum(part[0].numel() * part.element_size() for part in exchanges[0].weights)
    return {
        "seconds": seconds,
        "layers": len(exchanges),
        "moved": num_moved,
        "gib": num_moved * each / 2**30,
    }


def microseconds(place: torch.device, call: Callable[[], Any], repeats: int = 20) -> float:
    """Of one call among many in a row."""
    for _ in range(WARM):
        call()
    if place.type != "cuda":
        begin = time.perf_counter()
        for _ in range(repeats):
            call()
        return (time.perf_counter() - begin) / repeats * 1e6
    begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize(place)
    begun.record()
    for _ in range(repeats):
        call()
    ended.record()
    ended.synchronize()
    return begun.elapsed_time(ended) / repeats * 1e3


def about(rank: int, device: str) -> dict[str, Any]:
    """What this rank runs on."""
    found: dict[str, Any] = {"torch": torch.__version__, "backend": str(dist.get_backend())}
    if device == "cuda":
        found |= {"card": torch.cuda.get_device_name(rank), "nccl": ".".join(map(str, torch.cuda.nccl.version()))}
    return found


def wait_for_device(rank: int) -> None:
    """Until everything that was launched has run."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize(rank)


def comm_of(rank: int, device: str, num_ranks: int) -> RankComm:
    """Of all ranks."""
    sizes = (("data_parallel_size", num_ranks), ("expert_parallel_size", num_ranks))
    experts = groups_of(rank, sizes, device_of(device, rank)).experts
    assert experts is not None
    return experts
