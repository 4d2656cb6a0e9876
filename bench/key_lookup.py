"""Key lookup at eight times the trained length: the sparse selection against exact full attention.

Takes the `needle` rows of the bundled evaluation set, fills each row's list with lines of the other rows (none of them
about the asked key) up to the wanted length, and asks for the answer's log-probability three ways:

* sparse: the bundled model as it is (index top-k 32, 16 candidate blocks of 8);
* full: the same weights, where every row attends to all entries it can see (a replaced attention, dense products);
* widened: the same with the model's own code and an `index_topk` that covers everything. It is far slower, so only the
  first `--check` rows at `--check-tokens` tokens are done this way: they show that "full" is what it says.

    python bench/key_lookup.py --rows 24 --tokens 4096

Prints one line a row and a summary: rows whose answer is greedy token by token, and the mean log-probability.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import torch

from deepinfer import LLM
from deepinfer.models.deepseek_v41.attention import Attention
from deepinfer.models.deepseek_v41.step_context import StepContext
from deepinfer.ops.reference import decode_vectors
from deepinfer.text.tokenizer import Tokenizer

MINI = Path(str(files("deepinfer") / "data/mini"))
_STEP_TOKENS = 512


class Lookup(NamedTuple):
    """One stretched row: `place` is the share of the list that stands before the asked line."""

    prompt: str
    answer: str
    place: float


def read_rows() -> list[dict[str, str]]:
    """The needle rows of the evaluation set."""
    lines = (MINI / "eval.jsonl").read_text("utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row["task"] == "needle"]


def parts_of(row: dict[str, str]) -> tuple[str, list[str], str, str]:
    """(first line, list lines, question, asked key) of a row's prompt."""
    head, *lines, question = row["prompt"].split("\n")
    return head, lines, question, question.split(" for ")[1].split("?")[0]


def stretch(row: dict[str, str], pool: list[str], tokenizer: Tokenizer, num_tokens: int, rng: random.Random) -> Lookup:
    """The row with its list grown to about `num_tokens` tokens of prompt, its own lines spread over the whole."""
    head, lines, question, key = parts_of(row)
    filler = [line for line in pool if not line.startswith(f"{key}:")]
    per_line = len(tokenizer.encode("\n".join(filler))) / len(filler)
    grown, size = list(lines), len(tokenizer.encode(row["prompt"]))
    while size < num_tokens - per_line:
        for line in rng.choices(filler, k=max(1, int((num_tokens - size) / per_line))):
            grown.insert(rng.randrange(len(grown) + 1), line)
        size = len(tokenizer.encode("\n".join([head, *grown, question])))
    place = next(i for i, line in enumerate(grown) if line.startswith(f"{key}:")) / len(grown)
    return Lookup("\n".join([head, *grown, question]), row["answer"], place)


def full_attention(original: Attention, x: torch.Tensor, ctx: StepContext) -> torch.Tensor:
    """Stands in for a layer's attention [T, D]: window and all visible entries of the step's one sequence."""
    plan, projections = original._plan, original.projections
    if plan.kv_source is None:
        return original(x, ctx)
    entries, cache = ctx.entries[plan.ratio], ctx.caches.main[plan.kv_source]
    config, rope = original._runtime.config, original._rope.at(ctx.batch.positions)
    q = projections.query(projections.query_latent(x), rope).float()
    stored, index = original._window(x, rope, ctx), ctx.window.window_index
    near = decode_vectors(stored, ctx.caches.window[plan.layer_id].format)[index.clamp(min=0)]
    far = entries.of(cache).gather(entries.first_block[:1], torch.arange(entries.max_visible))
    far = decode_vectors(far, cache.format)
    hidden = torch.arange(far.shape[0]) >= entries.num_visible[:, None]
    logits = torch.cat((q @ near.transpose(1, 2), q @ far.T), dim=2) * config.softmax_scale
    logits.masked_fill_(torch.cat((index < 0, hidden), dim=1)[:, None], -torch.inf)
    sink = projections.sink.expand(q.shape[0], -1)[:, :, None]
    weights = torch.softmax(torch.cat((logits, sink), dim=2), dim=2)
    heads = weights[:, :, : near.shape[1]] @ near + weights[:, :, near.shape[1] : -1] @ far
    return projections.output(heads.to(x.dtype), rope)


def widened_copy(directory: Path, num_tokens: int) -> str:
    """The bundled checkpoint with a top-k (and candidate blocks) that covers `num_tokens` entries."""
    for file in MINI.iterdir():
        if file.name not in ("config.json", "eval.jsonl", "README.md"):
            (directory / file.name).symlink_to(file)
    config: dict[str, Any] = json.loads((MINI / "config.json").read_text("utf-8"))
    text = config["text_config"]
    text["index_topk"] = num_tokens
    text["candidate_topk_blocks"] = -(-num_tokens // text["candidate_block_size"])
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return str(directory)


def judge(label: str, lookups: list[Lookup], model: str | None = None, full: bool = False) -> list[tuple[bool, float]]:
    """(answer is greedy, its log-probability) of every lookup, one at a time."""
    results: list[tuple[bool, float]] = []
    with (
        LLM(model, max_num_seqs=1, max_num_batched_tokens=_STEP_TOKENS, speculative="off") as llm,
        ExitStack() as stack,
    ):
        for layer in range(8 if full else 0):
            stack.enter_context(llm.replace(f"layers.{layer}.attn", full_attention))
        for number, lookup in enumerate(lookups):
            start = time.perf_counter()
            ((total, is_greedy, _),) = llm.score([lookup.prompt], [lookup.answer])
            results.append((bool(is_greedy), float(total)))
            seconds = time.perf_counter() - start
            print(
                f"{label} {number}: at {lookup.place:.2f}, greedy {is_greedy}, {total:.4f}, {seconds:.0f} s", flush=True
            )
    solved, mean = sum(greedy for greedy, _ in results), statistics.fmean(total for _, total in results)
    print(f"{label}: {solved} of {len(results)} answers greedy, mean log-probability {mean:.3f}", flush=True)
    return results


def main() -> None:
    """Stretch, judge, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=24, help="needle rows, at most 48")
    parser.add_argument("--tokens", type=int, default=4096, help="prompt tokens after stretching")
    parser.add_argument("--check", type=int, default=2, help="rows judged with a widened top-k as well")
    parser.add_argument("--check-tokens", type=int, default=600, help="prompt tokens of these")
    parser.add_argument("--seed", type=int, default=0, help="of the filling lines")
    options = parser.parse_args()
    rows, rng = read_rows(), random.Random(options.seed)
    pools: dict[str, list[str]] = {}
    for row in rows:
        head, lines, _, _ = parts_of(row)
        pools.setdefault(head, []).extend(lines)
    tokenizer = Tokenizer.from_path(MINI, 0, 4096)

    def stretched(count: int, num_tokens: int) -> list[Lookup]:
        return [stretch(row, pools[parts_of(row)[0]], tokenizer, num_tokens, rng) for row in rows[:count]]

    if options.check:
        lookups = stretched(options.check, options.check_tokens)
        judge("full, short", lookups, full=True)
        with tempfile.TemporaryDirectory() as folder:
            judge("widened, short", lookups, widened_copy(Path(folder), options.check_tokens + 64))
    lookups = stretched(options.rows, options.tokens)
    judge("sparse", lookups)
    judge("full", lookups, full=True)


if __name__ == "__main__":
    main()
