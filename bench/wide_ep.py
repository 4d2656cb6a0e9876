"""Wide-EP on the GPUs of one machine, a process each, in sections that may be named alone:

    python bench/wide_ep.py REPORT.json [links exchange context decode shuffle overlap] [--gpus 2]

links: what all-to-alls, sends and votes take. exchange: dispatch and combine of one layer, of decode steps and of
others, beside all-to-alls of the same bytes. context: one long prompt, its rows shared by all GPUs or computed by one.
decode: tokens/s/GPU and tokens/s/user by sequences a GPU, experts over one GPU and more, up to all, on one also with
the loop of lock steps and what a rank's share in a layer's experts takes there; and where the time goes; with --plain
all of it also without overlapped steps. shuffle: weights of experts that change places. overlap: prefill steps of many
sequences with two-batch overlap off and on. The model is a slice of V4.1-Flash with layers of true shape and random
weights, unless --model names another. A section that fails or takes longer than --cap ends alone.

Without GPUs: --device cpu --model bundled --batches 1,4 --long 256 --chunk 128.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import wide_ep_ranks as ranks
from bench.wide_ep_breakdown import breakdown, votes
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.engine.model_path import bundled_model_path
from tests.distributed.rank_world import RankWorld
from tests.gpu.slice_model import write_slice

DECODED = 40
PROMPT = 32  # tokens
LINK_BYTES = [2**16, 2**20, 2**23, 2**26, 2**28]
MANY = 16  # prompts of the overlap section on each GPU, which fill a step
REPEATS = 3


class WideEPBench:
    """Runs sections on a world of ranks and writes what they found after every figure.

    Args:
        words: the command line.
        model: directory.
    """

    def __init__(self, words: argparse.Namespace, model: Path) -> None:
        self.words = words
        self.size, self.device = words.gpus, words.device
        self.model = str(model)
        self.config = DeepSeekV41Config.from_path(model)
        self.world: RankWorld | None = None
        self.opened: dict[str, Any] | None = None  # how the engines that are there were asked for
        self.loaded: dict[str, Any] = {}
        self.end = 0.0
        self.report: dict[str, Any] = {
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "num_gpus": self.size,
            "num_layers": self.config.num_hidden_layers,
            "model": "slice of V4.1-Flash" if words.model is None else words.model,
        }

    def run(self) -> None:
        """All sections that were asked for."""
        for name in self.words.sections or SECTIONS:
            begin = time.monotonic()
            self.end = begin + self.words.cap
            try:
                if self.world is None:
                    self.world = RankWorld(self.size, self.device)
                    self.report |= self.call(ranks.about, self.device)[0]
                SECTIONS[name](self)
            except Exception as error:  # the other sections may still run, in a world of their own
                self.note(name, {"failed": str(error)[-3000:]})
                self.close()
            print(f"[{name}: {time.monotonic() - begin:.0f} s]", flush=True)
        self.close()

    def close(self) -> None:
        """End the ranks."""
        if self.world is not None:
            self.world.__exit__()
        self.world, self.opened = None, None

    def call(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """On all ranks; an error once the section's time is over."""
        assert self.world is not None
        return self.world.run(function, *arguments, seconds=max(5.0, self.end - time.monotonic()))

    def note(self, section: str, found: dict[str, Any]) -> None:
        """Print a line and keep it."""
        self.report.setdefault(section, []).append(found)
        shown = (
            f"{name} {value:.5g}" if isinstance(value, float) else f"{name} {value}" for name, value in found.items()
        )
        print(f"{section}: {', '.join(shown)}", flush=True)
        self.words.report.write_text(json.dumps(self.report, indent=1), encoding="utf-8")

    def open(self, sizes: dict[str, Any], **others: Any) -> dict[str, Any]:
        """An engine on every rank, the last one if it was asked for alike; how long it took to load."""
        if self.opened != sizes | others:
            self.opened = None
            options = self.options() | others
            self.loaded = self.call(ranks.open_engine, self.device, self.model, sizes, options)[0]
            self.opened = sizes | others
        return self.loaded

    def options(self) -> dict[str, Any]:
        """Of all engines."""
        most = max(self.words.batches)
        given: dict[str, Any] = {
            "max_num_seqs": max(most, MANY),
            "max_model_len": self.words.long + 64,
            "max_num_batched_tokens": self.words.chunk,
            "speculative": "off",
        }
        if self.device == "cuda":
            given |= {"backend": "cuda", "kv_cache_bytes": 2**33}
        if self.words.model is None:
            given |= {"load_format": "dummy"}
        return given

    def spread(self, width: int, **others: Any) -> dict[str, Any]:
        """All GPUs with requests of their own, experts over `width` of them; nothing for GPUs by themselves."""
        return {} if width == 1 else {"data_parallel_size": self.size, "expert_parallel_size": width, **others}


def links(bench: WideEPBench) -> None:
    sizes = LINK_BYTES if bench.device == "cuda" else LINK_BYTES[:2]
    for found in bench.call(ranks.links, bench.device, bench.size, sizes)[0]:
        bench.note("links", found)
    bench.note("votes", slowest(bench.call(votes, bench.device, bench.size)))


def exchange(bench: WideEPBench) -> None:
    shape = {name: getattr(bench.config, name) for name in ("hidden_size", "num_experts_per_tok", "n_routed_experts")}
    for rows in bench.words.batches:
        found = bench.call(ranks.static_exchange, bench.device, bench.size, shape, rows)
        bench.note("exchange of decode steps", {"rows": rows, **slowest(found)})
    for rows in [*bench.words.batches, bench.words.chunk // bench.size]:
        found = bench.call(ranks.exchange, bench.device, bench.size, shape, rows)
        bench.note("exchange", {"rows": rows, **slowest(found)})


def slowest(found: list[dict[str, float]]) -> dict[str, float]:
    """The largest of each figure over the ranks."""
    return {name: max(row[name] for row in found) for name in found[0]}


def context(bench: WideEPBench) -> None:
    length, times = bench.words.long, {}
    for ways in (bench.size, 1):  # the engine of one is the next section's
        bench.open({"context_parallel_size": ways, "expert_parallel_size": ways} if ways > 1 else {})
        times[ways] = max(bench.call(ranks.prefill, 1, length, REPEATS))
        bench.note("context", {"ranks": ways, "length": length, "chunk": bench.words.chunk, "seconds": times[ways]})
    speedup = times[1] / times[bench.size]
    bench.note("context", {"ranks": bench.size, "speedup": speedup, "efficiency": speedup / bench.size})


def decode(bench: WideEPBench) -> None:
    widths = [width for width in range(1, bench.size + 1) if bench.size % width == 0]
    for width in bench.words.widths or widths:
        decode_with(bench, bench.spread(width), {"experts_over": width})
        if width == 1:
            experts(bench, [several for several in widths if several > 1])
            # What agreeing with other ranks costs:
            decode_with(bench, {"data_parallel_size": bench.size}, {"experts_over": 1, "lockstep": True})


def decode_with(bench: WideEPBench, sizes: dict[str, Any], about: dict[str, Any]) -> None:
    """All batches with one layout."""
    decode_batches(bench, sizes, about)
    if bench.words.plain:
        decode_batches(bench, sizes, {**about, "plain": True}, overlap=False)


def decode_batches(bench: WideEPBench, sizes: dict[str, Any], about: dict[str, Any], **options: Any) -> None:
    """All batches with the engines of these options."""
    bench.note("engines", {**about, **bench.open(sizes, **options)})
    for batch in bench.words.batches:
        found = bench.call(ranks.decode, batch, PROMPT, DECODED)
        step_ms = max(row["step_ms"] for row in found)
        point = {**about, "batch": batch, "step_ms": step_ms, "tokens_s_user": 1e3 / step_ms}
        point |= {"tokens_s_gpu": batch * 1e3 / step_ms, "p90_ms": max(row["p90_ms"] for row in found)}
        parts = bench.call(breakdown, batch, PROMPT, DECODED)
        bench.note("decode", point | {"context_len": PROMPT + DECODED // 2} | slowest(parts))


def experts(bench: WideEPBench, widths: list[int]) -> None:
    """What a layer's experts take on a rank, measured with engines that have them all."""
    for width in widths:
        for batch in bench.words.batches:
            found = slowest(bench.call(ranks.rank_experts, width, batch))
            bench.note("experts of a rank", {"experts_over": width, "batch": batch, **found})


def shuffle(bench: WideEPBench) -> None:
    bench.open(bench.spread(bench.size))
    for share in (0.05, 0.5, 0.5):  # the first also meets what NCCL sets up for it
        found = bench.call(ranks.shuffle, share)
        moved = {"share": share, **slowest(found)}
        bench.note("shuffle", moved | {"gb_s_per_rank": moved["gib"] * 2**30 / bench.size / moved["seconds"] / 1e9})


def overlap(bench: WideEPBench) -> None:
    seconds, length = {}, bench.words.chunk // MANY
    for setting in ("off", "on"):
        bench.open(bench.spread(bench.size, two_batch_overlap=setting))
        seconds[setting] = max(bench.call(ranks.prefill, MANY, length, REPEATS))
        found = {"two_batch_overlap": setting, "seconds": seconds[setting], "prompts": MANY, "length": length}
        bench.note("overlap", found | {"tokens_s_gpu": MANY * length / seconds[setting]})
    bench.note("overlap", {"gain": seconds["off"] / seconds["on"]})


SECTIONS: dict[str, Callable[[WideEPBench], None]] = {
    "links": links,
    "exchange": exchange,
    "context": context,
    "decode": decode,
    "shuffle": shuffle,
    "overlap": overlap,
}


def integers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []])
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--model", help="checkpoint directory, or bundled")
    parser.add_argument("--batches", type=integers, default=[1, 4, 16, 64, 128, 256])
    parser.add_argument("--widths", type=integers, help="numbers of GPUs that share the experts in the decode section")
    parser.add_argument("--long", type=int, default=32_768, help="tokens of the context section's prompt")
    parser.add_argument("--chunk", type=int, default=8192, help="tokens of a prefill step")
    parser.add_argument("--plain", action="store_true", help="decode also without overlapped steps")
    parser.add_argument("--cap", type=float, default=180.0, help="seconds of a section")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = bundled_model_path() if words.model == "bundled" else Path(words.model or write_slice(Path(folder)))
        WideEPBench(words, Path(model)).run()


if __name__ == "__main__":
    main()
