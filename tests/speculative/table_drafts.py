"""A table model whose draft model is a table too: target and draft distributions are known, and differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from deepinfer import LLM, SamplingParams
from tests.support.table_model import LOW, SOFT_IDS, VOCAB, TableDraft, TableModels

IDS = SOFT_IDS
_TARGET = {20: (2.0, 1.0, 0.0, 1.5), 30: (0.0, 1.0, 1.0, 0.0), 40: (1.0, -1.0, 2.0, 0.5), 50: (0.5, 0.5, 0.5, 2.0)}
_DRAFT = {20: (0.0, 1.0, 2.0, 0.0), 30: (2.0, 0.0, 0.0, 1.0), 40: (1.0, 1.0, 1.0, 1.0)}
SCORES = {20: 3.0, 30: -2.0, 40: 0.5}
DRAFT = TableDraft(
    {token: dict(zip(IDS, logits, strict=True)) for token, logits in _DRAFT.items()},
    dict(zip(IDS, (0.0, 1.0, 1.0, 2.0), strict=True)),
    SCORES,
)


def target_table() -> torch.Tensor:
    """Logits [next, token before]."""
    table = torch.full((VOCAB, VOCAB), LOW)
    for token in range(VOCAB):
        table[list(IDS), token] = torch.tensor(_TARGET.get(token, (3.0, 2.0, 1.0, 0.0)))
    return table


def steps_of(logits: torch.Tensor) -> np.ndarray:
    """Transition probabilities [4, 4] among IDS of logits [next, token before]."""
    found: np.ndarray = torch.softmax(logits[list(IDS)][:, list(IDS)].double(), dim=0).T.numpy()
    return found


def start(models: TableModels, path: Path | None = None, **options: Any) -> LLM:
    """An engine over both tables, or a given checkpoint, with rejection sampling unless told otherwise."""
    defaults = {"numerics": "fp32", "max_model_len": 64, "block_size": 8, "batch_invariant": False, "max_num_seqs": 128}
    return LLM(path or models.path(target_table(), draft=DRAFT), **defaults | options)


def costs(ms_per_row: float, ms_per_pass: float) -> dict[str, list[tuple[int, float]]]:
    """A straight cost curve, so that confidences decide how many drafts are verified."""
    return {"step": [(rows, 10.0 + ms_per_row * rows) for rows in range(1, 1025)], "draft": [(1024, ms_per_pass)]}


def triples(llm: LLM, num_requests: int, num_triples: int, **fields: Any) -> tuple[np.ndarray, np.ndarray]:
    """Counts [4, 4, 4, 4] of (token before, next three tokens), and their expectation, over unseeded requests.

    Given the token before, the three tokens behind it are an independent draw: the target is a table.
    """
    params = SamplingParams(max_tokens=1 + 3 * num_triples, ignore_eos=True, **fields)
    outputs = llm.generate([[10]] * num_requests, params, use_tqdm=False)
    places = {token: place for place, token in enumerate(IDS)}
    tokens = np.array([[places[token] for token in output.outputs[0].token_ids] for output in outputs])
    counts = np.zeros((4, 4, 4, 4))
    for begin in range(0, 3 * num_triples, 3):
        np.add.at(counts, tuple(tokens[:, begin : begin + 4].T), 1)
    step = steps_of(target_table())
    given = counts.sum(axis=(1, 2, 3))
    joint = step[:, :, None, None] * step[None, :, :, None] * step[None, None, :, :]
    return counts, given[:, None, None, None] * joint
