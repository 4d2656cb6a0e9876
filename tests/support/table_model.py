"""T-TAB: checkpoints of 8 real layers whose logits behind token t are a given column, whatever came before.

Every sublayer writes zero (wo_b, expert w2, shared w2 and Engram's wkv are zero), so the streams stay multiples of the
one-hot embedding of the last token, the final norm turns them into sqrt(1024) = 32 times one-hot, and with norm weight
1/32 the logits are exactly the head's column of that token.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from deepinfer.checkpoint.writer import write_random_checkpoint
from tests.support.table_tokenizer import MERGED, write_table_tokenizer
from tests.support.tiny_config import tiny_config

VOCAB, HIDDEN = 288, 1024
LOW = -40.0
SOFT_LOGITS = (3.0, 2.0, 1.0, 0.0)
SOFT_IDS = (20, 30, 40, 50)
_FIELDS = {
    "vocab_size": VOCAB,
    "hidden_size": HIDDEN,
    "num_attention_heads": 2,
    "q_lora_rank": 32,
    "compress_ratios": [0, 0, 2, 2, 2, 1, 1, 1],
    "index_n_heads": 1,
    "n_routed_experts": 2,
    "num_experts_per_tok": 1,
    "moe_intermediate_size": 32,
    "hc_mult": 2,
    "engram_n_heads": 1,
    "engram_max_ngram_size": 2,
    "num_nextn_predict_layers": 0,
    "dspark_target_layer_ids": [],
}
_SILENT = ("*.wo_b.weight", "*.w2.weight", "*.engram.wkv.weight")
_RANK = 16
_DRAFT_FIELDS = {
    "compress_ratios": [0, 0, 2, 2, 2, 1, 1, 1, 0],
    "num_nextn_predict_layers": 1,
    "dspark_block_size": 3,
    "dspark_target_layer_ids": [5, 6, 7],
    "dspark_markov_rank": _RANK,
    "dspark_n_routed_experts": 2,
    "dspark_num_experts_per_tok": 1,
}


def perm(token: int) -> int:
    """The PERM table: 10 -> 57 -> 36 -> 187 -> ..."""
    return (5 * token + 7) % 256


def perm_tokens(start: int, count: int) -> list[int]:
    """What PERM generates behind `start`."""
    tokens = [start]
    for _ in range(count):
        tokens.append(perm(tokens[-1]))
    return tokens[1:]


def perm_table(margin: float = 20.0) -> torch.Tensor:
    """Logits [next, token] of PERM; ids from 256 on go to perm(id mod 256) too."""
    table = torch.zeros(VOCAB, VOCAB)
    for token in range(VOCAB):
        table[perm(token), token] = margin
    return table


def column_table(logits: Mapping[int, float], rest: float = LOW) -> torch.Tensor:
    """The same logits behind every token."""
    column = torch.full((VOCAB,), rest)
    for token, value in logits.items():
        column[token] = value
    return column[:, None].expand(VOCAB, VOCAB).contiguous()


def soft_table() -> torch.Tensor:
    """SOFT: 3, 2, 1, 0 on four ids, the rest -40."""
    return column_table(dict(zip(SOFT_IDS, SOFT_LOGITS, strict=True)))


def chain_table(*chains: Sequence[int], margin: float = 20.0) -> torch.Tensor:
    """A table in which each id of a chain is followed by the next one; the last of a chain repeats itself.

    Raises ValueError where two chains disagree on what follows an id.
    """
    table = torch.zeros(VOCAB, VOCAB)
    for chain in chains:
        for token, follower in zip(chain, [*chain[1:], chain[-1]], strict=True):
            if table[:, token].any() and table[follower, token] != margin:
                raise ValueError(f"id {token} has two followers")
            table[follower, token] = margin
    return table


@dataclass(frozen=True)
class TableDraft:
    """A draft model with known distributions: its last norm is zero, so only the Markov head and the confidence
    head's Markov half speak, and these know nothing but the token before.

    Attributes:
        columns: token before -> {next token: logit}, the rest LOW; at most 15 of them. Values that BF16 holds exactly.
        others: the column behind every other token.
        scores: token before -> score of the confidence, before the sigmoid; 0 for every other.
    """

    columns: Mapping[int, Mapping[int, float]]
    others: Mapping[int, float]
    scores: Mapping[int, float] = field(default_factory=dict)

    def logits(self, previous: int) -> torch.Tensor:
        """float32 [288] of the draft behind `previous`."""
        return column_table(self.columns.get(previous, self.others))[:, 0]

    def overrides(self) -> dict[str, torch.Tensor | float]:
        """Tensors of the checkpoint: each kind of token before has its own place in the rank."""
        embed, head, scores = torch.zeros(VOCAB, _RANK), torch.full((VOCAB, _RANK), LOW), torch.zeros(1, _RANK)
        embed[:, _RANK - 1] = 1.0
        for place, (token, column) in enumerate([*self.columns.items(), (None, self.others)]):
            place = _RANK - 1 if token is None else place
            head[:, place] = column_table(column)[:, 0]
            if token is not None:
                embed[token] = torch.eye(_RANK)[place]
                scores[0, place] = self.scores.get(token, 0.0)
        return {
            "mtp.0.norm.weight": 0.0,
            "mtp.0.markov_head.embed.weight": embed,
            "mtp.0.markov_head.head.weight": head,
            "mtp.0.confidence_head.proj.weight": torch.cat((torch.zeros(1, HIDDEN), scores), dim=1),
        }


class TableModels:
    """Writes each wanted table once under `root` and hands out its directory."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def path(
        self,
        table: torch.Tensor,
        *,
        merged: Sequence[str] = MERGED,
        added: Sequence[str] = (),
        eos: int | list[int] = 1,
        draft: TableDraft | None = None,
    ) -> Path:
        """Directory of the checkpoint with these logits.

        Args:
            table: [next id, token] float32 [288, 288], values that BF16 holds exactly.
            merged, added: texts of the merged and the added plain tokens of its tokenizer.
            eos: end ids of config.json.
            draft: one draft stage with these distributions; None: without drafts.
        """
        if not torch.equal(table.bfloat16().float(), table):
            raise ValueError("a table's logits must be exact in BF16")
        key = hashlib.sha256(
            table.contiguous().numpy().tobytes() + repr((merged, added, eos, draft)).encode()
        ).hexdigest()
        directory = self._root / key[:16]
        if not directory.exists():
            source = self._root / f"{directory.name}-tokenizer"
            source.mkdir()
            _write(directory, table, write_table_tokenizer(source, merged, added), eos, draft)
        return directory


def _write(
    directory: Path, table: torch.Tensor, tokenizer: Path, eos: int | list[int], draft: TableDraft | None
) -> None:
    head = torch.zeros(VOCAB, HIDDEN)
    head[:, :VOCAB] = table
    overrides = {
        **dict.fromkeys(_SILENT, 0.0),
        "embed.weight": torch.eye(VOCAB, HIDDEN),
        "norm.weight": HIDDEN**-0.5,
        "head.weight": head,
        **(draft.overrides() if draft else {}),
    }
    config = tiny_config(**_FIELDS | (_DRAFT_FIELDS if draft else {})) | {"eos_token_id": eos}
    write_random_checkpoint(config, directory, overrides=overrides, tokenizer_json=tokenizer)


def with_generation_config(directory: Path, target: Path, **values: object) -> Path:
    """A directory `target` with links to the files of `directory` and a generation_config.json of `values`."""
    target.mkdir()
    for file in directory.iterdir():
        (target / file.name).symlink_to(file)
    (target / "generation_config.json").write_text(json.dumps(values), encoding="utf-8")
    return target
