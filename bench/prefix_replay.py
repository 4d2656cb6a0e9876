"""How exact a replay on a saved prefix is: every cut of a prompt, against the exact model.

The prompt is a look-up of the bundled evaluation set. It is fed token by token and saved after each; then token c is
judged on the prefix of the first c tokens. Compared are the log-probabilities of the whole vocabulary behind token c.

python bench/prefix_replay.py [--length 300] [--every 1]
"""

from __future__ import annotations

import argparse
import json
from importlib.resources import files
from typing import Any

import numpy as np
import torch

from deepinfer import LLM, SamplingParams
from deepinfer.engine.prefix_handle import PrefixHandle
from deepinfer.outputs.vocabulary_logprobs import VocabularyLogprobs


def text_ids(llm: LLM, length: int) -> list[int]:
    lines = (files("deepinfer") / "data/mini/eval.jsonl").read_text("utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["task"] == "needle"]
    ids: list[int] = []
    for row in sorted(rows, key=lambda row: len(row["prompt"])):
        ids = llm.get_tokenizer().encode_prompt(row["prompt"])
        if len(ids) >= length:
            return list(ids[:length])
    raise SystemExit(f"no look-up has {length} tokens; the longest has {len(ids)}")


def exact_logprobs(llm: LLM, ids: list[int]) -> np.ndarray:
    """float32 [len - 1, vocab]: row c judges the token behind token c."""
    params = SamplingParams(temperature=0, max_tokens=0, prompt_logprobs=-1)
    (output,) = llm.generate([ids], params, use_tqdm=False)
    assert output.prompt_logprobs is not None
    return np.stack([entry.row for entry in output.prompt_logprobs if isinstance(entry, VocabularyLogprobs)])


def prefixes(llm: LLM, ids: list[int]) -> list[PrefixHandle]:
    """Handle c - 1 holds the first c tokens."""
    params = SamplingParams(temperature=0, max_tokens=len(ids) - 1, ignore_eos=True, golden_token_ids=ids[1:])
    handles = []
    for _ in llm.stream([ids[:1]], params, request_ids=["fed"]):
        handles.append(llm.save_prefix("fed", allow_replay=True))
    return handles


def replayed_logprobs(llm: LLM, ids: list[int], handle: PrefixHandle) -> tuple[np.ndarray, int]:
    """float32 [vocab] behind the token after the prefix, and how many tokens were not computed."""
    prompt = {"prefix": handle, "prompt_token_ids": ids[: handle.num_tokens + 1]}
    (output,) = llm.generate([prompt], SamplingParams(temperature=0, max_tokens=1, logprobs=-1), use_tqdm=False)
    listed = output.outputs[0].logprobs
    assert output.error is None and listed is not None
    row = np.empty(listed.top_logprobs.shape[1], dtype=np.float32)
    row[listed.top_ids[0]] = listed.top_logprobs[0]
    return row, output.num_cached_tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=300)
    parser.add_argument("--every", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    options: dict[str, Any] = {"max_model_len": arguments.length + 8, "max_num_seqs": 2, "speculative": "off"}
    with LLM(block_size=16, **options) as llm:
        ids = text_ids(llm, arguments.length)
        exact = exact_logprobs(llm, ids)
        rows = []
        for handle in prefixes(llm, ids)[: arguments.length - 2 : arguments.every]:
            row, num_cached = replayed_logprobs(llm, ids, handle)
            rows.append((handle.num_tokens, num_cached, row))
    reused = np.array([num_cached > 0 for _, num_cached, _ in rows])
    wanted, replayed = exact[[cut for cut, _, _ in rows]], np.stack([row for _, _, row in rows])
    difference = np.abs(replayed - wanted)
    kl = (np.exp(wanted.astype(np.float64)) * (wanted - replayed)).sum(axis=1)[reused]
    same = (wanted.argmax(axis=1) == replayed.argmax(axis=1))[reused]
    print(f"{len(rows)} cuts, {int(reused.sum())} of them reuse; the others differ by {difference[~reused].max():.1e}")
    difference = difference[reused]
    print(f"|difference| of log-probabilities: mean {difference.mean():.4f}, largest {difference.max():.4f}")
    print(f"KL: mean {kl.mean():.2e}, largest {kl.max():.2e} nats; same greedy token: {same.mean():.1%}")
    print(f"equal to the bit: {(difference.max(axis=1) == 0).mean():.1%}")


if __name__ == "__main__":
    main()
