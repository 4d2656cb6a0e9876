"""Prefill of many sequences on two CPU processes that share the experts, with two-batch overlap off and on:

    python bench/two_batch_overlap.py [--prompts 8] [--length 128] [--repeats 5] [--ms 5] [--gb-s 0.1]

Two processes of one machine have no slow link between them. With --ms or --gb-s there is a made-up one: what an
exchange brings is held back until a time after its beginning, a latency and its bytes over a rate. Nothing computes
meanwhile unless the engine does. Engines with either setting take turns. Where others use the machine too, the fastest
run tells more than the median.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch

from bench import wide_ep_ranks as ranks
from deepinfer.distributed.in_flight import InFlight
from deepinfer.distributed.rank_comm import RankComm
from tests.distributed.rank_world import RankWorld

SIZES = {"data_parallel_size": 2, "expert_parallel_size": 2}
ROUNDS = 2


def hold_back(_rank: int, ms: float, gb_s: float) -> None:
    """From now on no exchange of rows takes less than this."""
    original = RankComm.start_rows

    def start_rows(self: RankComm, rows: torch.Tensor, *others: Any) -> InFlight:
        flight: InFlight = original(self, rows, *others)
        seconds = ms / 1e3 + rows.numel() * (self.size - 1) / self.size / (gb_s * 1e9)
        arrival, wait = time.perf_counter() + seconds, flight.wait

        def held_back() -> torch.Tensor:
            came = wait()
            time.sleep(max(0.0, arrival - time.perf_counter()))
            return came

        flight.wait = held_back
        return flight

    RankComm.start_rows = start_rows


def generate(rank: int, prompts: int, length: int) -> tuple[float, float]:
    """Prefill on this rank: seconds, and those that its process computed."""
    begin = time.process_time()
    return ranks.generate(rank, prompts, length, 1)["seconds"], time.process_time() - begin


def main(words: argparse.Namespace) -> None:
    """Prints a line for each setting."""
    from bench import two_batch_overlap as here  # the ranks look for functions by their module's name

    options = {"max_num_seqs": words.prompts, "max_model_len": words.length + 8, "speculative": "off"}
    options["max_num_batched_tokens"] = words.prompts * words.length
    found: dict[str, list[list[tuple[float, float]]]] = {"off": [], "on": []}
    with RankWorld(2) as world:
        if words.ms or words.gb_s < float("inf"):
            world.run(here.hold_back, words.ms, words.gb_s)
        for _ in range(ROUNDS):
            for mode, runs in found.items():
                world.run(ranks.open_engine, "cpu", None, SIZES | {"two_batch_overlap": mode}, options)
                world.run(here.generate, words.prompts, words.length)
                runs += [world.run(here.generate, words.prompts, words.length) for _ in range(words.repeats)]
    for mode, runs in found.items():
        seconds = [max(wall for wall, _ in run) * 1e3 for run in runs]
        computed = min(max(busy for _, busy in run) * 1e3 for run in runs)
        times = f"fastest {min(seconds):.1f} ms, median {statistics.median(seconds):.1f} ms"
        print(f"two-batch overlap {mode}: {times}, computing {computed:.1f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, kind, default in (("prompts", int, 8), ("length", int, 128), ("repeats", int, 5)):
        parser.add_argument(f"--{name}", type=kind, default=default)
    parser.add_argument("--ms", type=float, default=0.0, help="latency of the link")
    parser.add_argument("--gb-s", type=float, default=float("inf"), help="GB/s of the link")
    main(parser.parse_args())
