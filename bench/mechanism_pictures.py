"""Draws the pictures of doc/mechanisms.md from runs of the bundled model on a CPU.

    python bench/mechanism_pictures.py            (all, into doc/figures)
    python bench/mechanism_pictures.py FOLDER

Times in the picture of requests are those of the machine; all other pictures are the same on every machine.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch

from deepinfer import LLM, SamplingParams
from deepinfer.bench.answer_rows import first_of_each_task, read_answer_rows
from deepinfer.bench.line_plot import LinePlot
from deepinfer.bench.prompt_file import bundled_prompts, mixed_prompts
from deepinfer.profile.step_trace import StepTrace

LEFT: Final = 110
TOP: Final = 46
CELL: Final = 22
COLORS: Final = {"queued": "#d9d9d9", "prefill": "#f28e2b", "decode": "#4e79a7"}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {
        "requests": requests_picture(requests_trace()),
        "index_picks": picks_picture(*index_picks()),
        "experts": heat_map("tokens by layer and expert, 30 evaluation rows", expert_loads(), "layer", "expert"),
        "drafts": drafts_plot().svg(),
        "yoco": yoco_plot().svg(),
    }
    for name, svg in pictures.items():
        (folder / f"{name}.svg").write_text(svg, encoding="utf-8")


def requests_trace() -> StepTrace:
    """Ten requests of different lengths on four seats, in chunks of 64 prompt tokens."""
    prompts = [prompt * (1 + 5 * (i % 3 == 0)) for i, prompt in enumerate(mixed_prompts(10))]
    params = [SamplingParams(temperature=0, max_tokens=6 + 5 * (i % 4), ignore_eos=True) for i in range(10)]
    options = {"max_num_seqs": 4, "max_prefill_chunk": 64, "max_num_batched_tokens": 128, "speculative": "off"}
    with LLM(max_model_len=1024, **options) as llm:
        llm.generate(prompts, params, use_tqdm=False, strict=True)  # the first steps of an engine are slower
        with llm.trace() as trace:
            llm.generate(prompts, params, use_tqdm=False, strict=True)
    return trace


def requests_picture(trace: StepTrace) -> str:
    """A line per request: waiting, prefill, decoding."""
    spans = [span for span in trace.spans if span.lane == "request" and span.name in COLORS]
    ids = list(dict.fromkeys(span.details["request_id"] for span in spans))
    begin, end = min(span.begin for span in spans), max(span.end for span in spans)
    width = 720
    body = []
    for span in spans:
        x, w = width * (span.begin - begin) / (end - begin), width * (span.end - span.begin) / (end - begin)
        y = TOP + CELL * ids.index(span.details["request_id"])
        title = f"{span.name}: {(span.end - span.begin) / 1e6:.1f} ms"
        body.append(_rect((LEFT + x, y, max(w, 0.5), CELL - 4), COLORS[span.name], title))
    for row in range(len(ids)):
        body.append(_text(LEFT - 8, TOP + CELL * row + 14, f"request {row}", "end"))
    for number, (name, color) in enumerate(COLORS.items()):
        x = LEFT + 110 * number
        body += [_rect((x, 14, 14, 14), color, name), _text(x + 20, 26, name)]
    height = TOP + CELL * len(ids) + 30
    body.append(_text(LEFT, height - 10, f"{(end - begin) / 1e6:.0f} ms from left to right"))
    return _svg(LEFT + width + 20, height, body)


def index_picks() -> tuple[torch.Tensor, int]:
    """Chosen entries int64 [positions, topk] of the ratio-1 index source in a long look-up; tokens of its question."""
    rows = [row.prompt for row in read_answer_rows(None) if row.task == "needle"]
    prompt = max(rows, key=len)
    with LLM(speculative="off") as llm, llm.capture("layers.5.index.picks") as tap:
        (output,) = llm.generate(prompt, SamplingParams(temperature=0, max_tokens=4), use_tqdm=False)
        question = len(llm.get_tokenizer().encode(prompt[prompt.index("What is") :]))
        return tap.tensor("layers.5.index.picks", output.request_id), question


def picks_picture(picks: torch.Tensor, question: int, size: int = 8) -> str:
    """Squares of `size` positions by `size` entries; the darker, the more often chosen."""
    count = -(-picks.shape[0] // size)
    grid = torch.zeros(count, count, dtype=torch.int64)
    for position, chosen in enumerate(picks):
        grid[position // size].index_add_(0, chosen[chosen >= 0] // size, torch.ones_like(chosen[chosen >= 0]))
    side, levels = 9, 6
    body = [_text(LEFT, 26, "entries that the indexer of layer 5 chooses (darker: more often)")]
    shades = (grid * levels + grid.max() - 1) // grid.max()
    for level in range(1, levels + 1):
        squares = (shades == level).nonzero().tolist()
        path = "".join(f"M{LEFT + side * column} {TOP + side * row}h{side}v{side}h-{side}" for row, column in squares)
        body.append(f'<path d="{path}" fill="{_shade(level / levels)}"/>')
    y = TOP + side * (picks.shape[0] - question) / size
    body.append(_rect((LEFT, y, side * count, 1), "#d1495b", "the question begins"))
    body += [_text(LEFT - 8, TOP + 10, "first token", "end"), _text(LEFT - 8, y + 4, "question", "end")]
    body.append(_text(LEFT, TOP + side * count + 20, "entry, oldest at the left"))
    return _svg(LEFT + side * count + 20, TOP + side * count + 36, body)


def expert_loads() -> list[list[int]]:
    """Tokens by layer and expert."""
    rows = first_of_each_task(read_answer_rows(None), 2)
    with LLM(speculative="off") as llm, llm.capture("layers.*.ffn.experts") as tap:
        outputs = llm.generate(
            [row.prompt for row in rows], SamplingParams(temperature=0, max_tokens=8), use_tqdm=False
        )
    loads = []
    for layer in range(len(tap.names())):
        chosen = [tap.tensor(f"layers.{layer}.ffn.experts", output.request_id).flatten() for output in outputs]
        loads.append(torch.bincount(torch.cat(chosen)).tolist())
    return loads


def heat_map(title: str, grid: Sequence[Sequence[int]], row_name: str, column_name: str) -> str:
    """A square for each number."""
    largest = max(max(row) for row in grid)
    side = 36
    body = [_text(LEFT, 26, title)]
    for row, values in enumerate(grid):
        body.append(_text(LEFT - 8, TOP + side * row + 22, f"{row_name} {row}", "end"))
        for column, value in enumerate(values):
            x, y = LEFT + side * column, TOP + side * row
            body.append(_rect((x, y, side - 1, side - 1), _shade(value / largest), f"{value} tokens"))
            ink = "white" if value > largest / 2 else "black"
            number = f'font-size="10" text-anchor="middle" fill="{ink}"'
            body.append(f'<text x="{x + side / 2:.0f}" y="{y + 22}" {number}>{value}</text>')
    width = max(map(len, grid))
    body += [_text(LEFT, TOP + side * len(grid) + 20, f"{column_name}, 0 to {width - 1}")]
    return _svg(LEFT + side * width + 20, TOP + side * len(grid) + 36, body)


def drafts_plot() -> LinePlot:
    """Share of verified drafts that are accepted, by position, for three kinds of prompts."""
    plot = LinePlot("accepted drafts by position, greedy", "position in the block", "share of verified drafts")
    for name, prompts in bundled_prompts().items():
        with LLM(speculative={"varlen": False}) as llm:
            params = SamplingParams(temperature=0, max_tokens=40)
            llm.generate(prompts[:: max(1, len(prompts) // 40)], params, use_tqdm=False, strict=True)
            stats = llm.stats()
        pairs = enumerate(zip(stats.accepted_at, stats.verified_at, strict=True), 1)
        label = f"{name}: {stats.num_verify_tokens / stats.num_verify_steps:.2f} tokens a step"
        plot.add(label, [(place, accepted / verified) for place, (accepted, verified) in pairs], marks=True)
    return plot


def yoco_plot() -> LinePlot:
    """Multiply-adds of a prefill by the length of the prompt, by the model's formulas."""
    plot = LinePlot("multiply-adds of a prefill", "prompt, tokens", "10^9 multiply-adds")
    for mode in ("off", "compact"):
        points = [(0.0, 0.0)]
        for length in (128, 256, 512, 1024, 2048):
            with LLM(yoco=mode, speculative="off", max_model_len=4096, max_num_seqs=1) as llm:
                llm.generate([[20 + i % 900 for i in range(length)]], SamplingParams(max_tokens=1), use_tqdm=False)
                cost = llm.stats().cost
            kinds = (cost.fp8, cost.experts, cost.index, cost.bf16, cost.fp32, cost.attention)
            points.append((float(length), sum(kinds) / 1e9))
        plot.add(f'yoco="{mode}"', points, marks=True)
    return plot


def _shade(share: float) -> str:
    """From nearly white to a dark blue."""
    return "#" + "".join(
        f"{round(light + (dark - light) * share):02x}" for light, dark in ((240, 20), (246, 70), (252, 140))
    )


def _rect(box: tuple[float, float, float, float], color: str, title: str) -> str:
    """box: x, y, width, height."""
    x, y, width, height = box
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {place} fill="{color}"><title>{escape(title)}</title></rect>'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="12" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(width: float, height: float, body: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif">'
    background = f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>'
    return "\n".join([head, background, *body, "</svg>", ""])


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "doc" / "figures")
