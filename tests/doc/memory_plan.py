"""The figures of doc/full_model.md, from the published config: ``python -m tests.doc.memory_plan`` rewrites them."""

from pathlib import Path

from deepinfer.checkpoint.inspect import inspect_checkpoint
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.config.numerics import Numerics
from deepinfer.core.cache_spec import CacheSpec
from deepinfer.worker.kv_cache import cache_table

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "deepinfer" / "data" / "configs" / "deepseek-v41-flash.json"
FILE = ROOT / "doc" / "full_model.md"
BEGIN, END = "<!-- figures: begin -->\n", "<!-- figures: end -->\n"
GIB = 2**30
USED_SHARE = 0.9  # default of gpu_memory_utilization
WORK_BYTES = (
    6 * GIB
)  # activations, captured graphs, communication buffers, the CUDA context: a reserve, not a measurement
NUM_SEQS = 256  # default of max_num_seqs
DEVICES = (("H100, 80 GB", 80e9), ("H200, 141 GB", 141e9), ("B200, 180 GB", 180e9))


def layout(config: DeepSeekV41Config) -> tuple[CacheSpec, ...]:
    return cache_table(config, Numerics.OFFICIAL, "auto", 128)


def figures() -> str:
    report = inspect_checkpoint(CONFIG, layout)
    groups = report.bytes_by_group
    split = groups["routed_experts"] + groups["draft"]
    tables = groups["engram_tables"]
    copied = report.num_bytes - split - tables - groups["vision"]
    state = report.state_bytes_per_sequence * NUM_SEQS
    lines = [
        "| part | bytes | GiB | where |",
        "|---|---|---|---|",
        _row("routed experts", groups["routed_experts"], "split over the GPUs"),
        _row("draft model", groups["draft"], "nearly all experts: split likewise"),
        _row("Engram tables", tables, "host memory (mapped file), or split over the GPUs"),
        _row("everything else of the text model", copied, "a copy on every GPU"),
        _row("image encoder", groups["vision"], "not loaded"),
        "",
        f"KV cache: {report.kv_bytes_per_token:g} bytes per token. State (window rings, compressor): "
        f"{report.state_bytes_per_sequence:,} bytes per running sequence, {state / GIB:.2f} GiB for {NUM_SEQS}.",
        "",
        "| GPUs | usable each | weights each | left each | tokens of KV cache, all | tables on the GPUs too |",
        "|---|---|---|---|---|---|",
    ]
    for name, size in DEVICES:
        for count in (4, 8):
            usable = size * USED_SHARE - WORK_BYTES
            weights = copied + split / count
            left = usable - weights - state
            with_tables = left - tables / count
            tokens = _tokens(left * count, report.kv_bytes_per_token)
            beside = _tokens(with_tables * count, report.kv_bytes_per_token)
            cells = f"{usable / GIB:.1f} GiB | {weights / GIB:.1f} GiB | {max(left, 0) / GIB:.1f} GiB"
            lines.append(f"| {count} x {name} | {cells} | {tokens} | {beside} |")
    return "\n".join(lines) + "\n"


def _row(name: str, size: int, where: str) -> str:
    return f"| {name} | {size:,} | {size / GIB:.2f} | {where} |"


def _tokens(size: float, per_token: float) -> str:
    return f"{size / per_token / 1e6:,.0f} M" if size > 0 else "does not fit"


def rewritten(text: str) -> str:
    head, rest = text.split(BEGIN)
    return head + BEGIN + figures() + END + rest.split(END)[1]


if __name__ == "__main__":
    FILE.write_text(rewritten(FILE.read_text(encoding="utf-8")), encoding="utf-8")
