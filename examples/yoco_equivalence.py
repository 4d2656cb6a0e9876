"""Compare YOCO prefill modes element by element: log-probabilities of the whole vocabulary and top-k lists.

Every mode feeds the same tokens: those that the exact model ("off") chooses. So position i of one mode stands against
position i of another. Mask and compact have to agree to the bit; how far they are from off is what the table shows.

    python examples/yoco_equivalence.py --plot yoco.png
    python examples/yoco_equivalence.py MODEL --prompts file_with_one_prompt_a_line.txt --keep-tokens 256
"""

from __future__ import annotations

import argparse
import json
from importlib.resources import files
from pathlib import Path

import numpy as np

from deepinfer import LLM, RequestOutput, SamplingParams

PAIRS = (("compact", "mask"), ("compact", "off"))


def bundled_prompts() -> list[str]:
    """The look-ups of the bundled evaluation set: its only prompts of several windows."""
    lines = (files("deepinfer") / "data/mini/eval.jsonl").read_text("utf-8").splitlines()
    rows = (json.loads(line) for line in lines)
    return [row["prompt"] for row in rows if row["task"] == "needle"]


def logprobs_of(output: RequestOutput) -> np.ndarray:
    """float32 [tokens, vocab] of a completion made with logprobs=-1."""
    assert output.error is None, output.error
    listed = output.outputs[0].logprobs
    assert listed is not None
    matrix = np.full(listed.top_logprobs.shape, -np.inf, dtype=np.float32)
    np.put_along_axis(matrix, listed.top_ids, listed.top_logprobs, axis=1)
    return matrix


def run_modes(arguments: argparse.Namespace, prompts: list[str]) -> dict[str, list[np.ndarray]]:
    """Log-probabilities per mode and prompt; every mode but "off" is fed the tokens that "off" chose."""
    greedy = {"temperature": 0, "max_tokens": arguments.max_tokens, "ignore_eos": True, "logprobs": -1}
    params = [SamplingParams(**greedy)] * len(prompts)
    results: dict[str, list[np.ndarray]] = {}
    for mode in ("off", "mask", "compact"):
        yoco = {"mode": mode, "keep_tokens": arguments.keep_tokens}
        with LLM(arguments.model, yoco=yoco, numerics=arguments.numerics, max_num_seqs=8) as llm:
            outputs = llm.generate(prompts, params)
        results[mode] = [logprobs_of(output) for output in outputs]
        chosen = [list(output.outputs[0].token_ids) for output in outputs]
        params = [SamplingParams(**greedy, golden_token_ids=ids) for ids in chosen]
    return results


def compare(one: np.ndarray, other: np.ndarray, top_k: int) -> dict[str, np.ndarray]:
    """Per position: largest difference, KL(other || one) in nats, equal argmax, shared share of the top k."""
    finite = np.isfinite(one) & np.isfinite(other)
    difference = np.abs(np.where(finite, one, 0) - np.where(finite, other, 0))
    kl = (np.exp(other.astype(np.float64)) * np.where(finite, other - one, 0)).sum(axis=1)
    tops = [np.argsort(-matrix, axis=1, kind="stable")[:, :top_k] for matrix in (one, other)]
    shared = [len(set(a) & set(b)) / top_k for a, b in zip(*map(np.ndarray.tolist, tops), strict=True)]
    return {
        "max |difference|": difference.max(axis=1),
        "KL": np.maximum(kl, 0),
        "same greedy token": (tops[0][:, 0] == tops[1][:, 0]).astype(float),
        "shared top-k": np.array(shared),
    }


def plot(results: dict[str, list[np.ndarray]], path: Path) -> None:
    """Scatter of the log-probabilities and KL by position, into an image file. Needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(15, 4.5))
    for axis, (one, other) in zip(axes, PAIRS, strict=False):
        x, y = (np.concatenate([matrix.ravel() for matrix in results[mode]]) for mode in (other, one))
        step = max(1, len(x) // 50_000)
        axis.plot(x[::step], y[::step], ".", markersize=1)
        axis.set(xlabel=f"log-probability, {other}", ylabel=f"log-probability, {one}", title=f"{one} against {other}")
    pairs = zip(results["compact"], results["off"], strict=True)
    kl = np.array([compare(compact, off, 1)["KL"] for compact, off in pairs])
    axes[2].semilogy(kl.mean(axis=0) + 1e-12, label="mean")
    axes[2].semilogy(kl.max(axis=0) + 1e-12, label="largest")
    axes[2].set(xlabel="generated token", ylabel="KL(off || compact), nats", title="compact against off")
    axes[2].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="checkpoint; the bundled one when left out")
    parser.add_argument("--prompts", type=Path, help="text file, one prompt a line; the bundled look-ups when left out")
    parser.add_argument("--keep-tokens", type=int, default=0, help="kept tokens of a prompt; 0: the least possible")
    parser.add_argument("--max-tokens", type=int, default=16, help="tokens to generate and compare")
    parser.add_argument("--top-k", type=int, default=10)
    parser.add_argument("--limit", type=int, default=None, help="use the first so many prompts")
    parser.add_argument("--numerics", default="official")
    parser.add_argument("--plot", type=Path, help="image file to write; needs matplotlib")
    arguments = parser.parse_args()
    prompts = arguments.prompts.read_text("utf-8").splitlines() if arguments.prompts else bundled_prompts()
    results = run_modes(arguments, prompts[: arguments.limit])
    for one, other in PAIRS:
        per_prompt = [compare(a, b, arguments.top_k) for a, b in zip(results[one], results[other], strict=True)]
        is_equal = all(np.array_equal(a, b) for a, b in zip(results[one], results[other], strict=True))
        print(f"{one} against {other}: {'equal to the bit' if is_equal else 'different'}")
        for name in per_prompt[0]:
            values = np.concatenate([record[name] for record in per_prompt])
            print(f"  {name:18} mean {values.mean():.6f}  least {values.min():.6f}  largest {values.max():.6f}")
    if arguments.plot:
        plot(results, arguments.plot)
        print(f"plot: {arguments.plot}")


if __name__ == "__main__":
    main()
