"""Which ops a step calls on how many rows, the draft pass behind it included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from deepinfer.bench.op_case import OpCase
from deepinfer.config.model_config import DeepSeekV41Config

OpKey = tuple[str, str]  # (op, use), as `deepinfer bench ops` names them

_SAMPLING: Final = ("sample_rows", "greedy")
# Of the rows that get logits, of which a prefill has one.
_HEAD: Final = {
    ("gather_rows", "streams of sampled rows"),
    ("hc_read_norm", "head"),
    ("linear", "head"),
    _SAMPLING,
}
# What a draft stage calls beside its router and experts: the shapes of a target layer with a window.
STAGE_CALLS: Final[Mapping[OpKey, int]] = {
    ("hc_step", "into a layer"): 1,
    ("hc_step", "from attention to MoE"): 1,
    ("hc_write", "out of a layer"): 1,
    ("rms_norm", "low-rank query"): 1,
    ("apply_rope", "query heads"): 1,
    ("quantized_linear", "query down"): 1,
    ("quantized_linear", "query up"): 1,
    ("quantized_linear", "window vector"): 1,
    ("rotate_grouped_linear", "output down"): 1,
    ("quantized_linear", "output up"): 1,
    ("store_vectors", "window"): 1,
    ("sparse_attention", "window"): 1,
}


@dataclass(frozen=True, slots=True)
class StepCalls:
    """Calls of a step that have the same rows.

    Attributes:
        rows: of each call.
        rows_per_seq: rows that belong to one sequence; of a prefill's chunk all do, whatever this says.
        calls: of each op.
    """

    rows: int
    rows_per_seq: int
    calls: Mapping[OpKey, int]


def prefill_calls(cases: Sequence[OpCase], num_tokens: int) -> list[StepCalls]:
    """A prompt's chunk, of which the last row is sampled, drafts off. Arguments: see `decode_calls`."""
    calls = _target_calls(cases, has_drafts=False)
    layers = {key: count for key, count in calls.items() if key not in _HEAD}
    return [
        StepCalls(num_tokens, 1, layers),
        StepCalls(1, 1, {key: count for key, count in calls.items() if key in _HEAD}),
    ]


def decode_calls(cases: Sequence[OpCase], config: DeepSeekV41Config, num_seqs: int, num_drafts: int) -> list[StepCalls]:
    """A decode step of greedy rows.

    Args:
        cases: of the model, with or without those of the sampler.
        config: of the model.
        num_seqs: sequences.
        num_drafts: verified per sequence, and made anew; 0: drafts are off.
    """
    target, verified = _target_calls(cases, has_drafts=num_drafts > 0), num_drafts + 1
    if not num_drafts:
        return [StepCalls(num_seqs, 1, target)]
    known, stages = {(case.op, case.use) for case in cases}, config.num_nextn_predict_layers
    features = {("quantized_linear", "draft features"): 1, ("quantized_linear", "window vector"): stages}
    features |= {("store_vectors", "window"): stages}
    block = {key: stages * count for key, count in STAGE_CALLS.items()}
    block |= {("route", "draft router"): stages, ("moe", "draft experts"): stages}
    block |= {("expand_embedding", "embedding"): 1, ("hc_read_norm", "head"): 1, ("linear", "head"): 1}
    loop = {("linear", "draft Markov head"): num_drafts, _SAMPLING: num_drafts}
    rows = num_seqs * verified
    parts = [
        StepCalls(rows, verified, {key: target.get(key, 0) + features.get(key, 0) for key in {*target, *features}}),
        StepCalls(num_seqs * num_drafts, num_drafts, block),
        StepCalls(num_seqs, 1, loop),
    ]
    return [
        StepCalls(part.rows, part.rows_per_seq, {key: count for key, count in part.calls.items() if key in known})
        for part in parts
    ]


def _target_calls(cases: Sequence[OpCase], *, has_drafts: bool) -> dict[OpKey, int]:
    """Of one forward pass of the target model, with the means of its streams if drafts are made from them.

    Engram tables lie in pinned host memory, where that was measured. What only a compact prefill calls is left out.
    """
    calls = {(case.op, case.use): case.count for case in cases if case.count and not case.use.startswith("draft")}
    if ("engram_lookup", "pinned host table") in calls:
        del calls["engram_lookup", "device table"]
    others = ("compact prefill",) if has_drafts else ("compact prefill", "for drafts")
    return {key: count for key, count in calls.items() if not any(words in key[1] for words in others)}
