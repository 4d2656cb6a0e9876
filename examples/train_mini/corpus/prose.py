"""Speeches, a novel and the documentation of Python, cut into pieces of roughly 1,600 characters."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from examples.train_mini.corpus.document import Document, is_held_out, plain

_LOW, _HIGH, _LEAST = 1200, 2200, 200  # characters: a piece ends, a paragraph is split, the last piece is kept
_UNUSED_PAGES = r"genindex|whatsnew|search\.html|contents\.html|py-modindex|c-api|license|distutils|download|copyright"
_PLAIN = {"—": " - ", "“": '"', "”": '"', "’": "'", "‘": "'"}


def text_documents(files: Iterable[Path], tag: str, paragraph_end: str) -> Iterator[tuple[bool, Document]]:
    """(held out, document) of plain texts whose paragraphs end where the pattern matches."""
    for path in files:
        paragraphs = re.split(paragraph_end, _simple(path.read_text(encoding="utf-8", errors="replace")))
        yield from _pieces(paragraphs, tag)


def html_documents(files: Iterable[Path], tag: str) -> Iterator[tuple[bool, Document]]:
    """(held out, document) of the pages of a Sphinx documentation."""
    for path in files:
        if not re.search(_UNUSED_PAGES, str(path)):
            yield from _pieces(_paragraphs(path.read_text(encoding="utf-8", errors="replace")), tag)


def _paragraphs(page: str) -> list[str]:
    body = re.search(r'(?s)<div class="body" role="main">(.*?)<div class="clearer">', page)
    page = body.group(1) if body else page
    page = re.sub(r"(?s)<(script|style|nav|head).*?</\1>", "", page)
    page = re.sub(r"(?s)</(p|dt|li|pre|h\d|tr|dd)>", "\n\n", page)
    page = html.unescape(re.sub(r"(?s)<[^>]+>", "", page)).replace("¶", "")
    found = re.split(r"\n\s*\n", _simple(page))
    joined = [re.sub(r"\s*\n\s*", " ", text) if ">>>" not in text else text for text in found]
    return [text for text in joined if len(text) > 25]


def _pieces(paragraphs: Iterable[str], tag: str) -> Iterator[tuple[bool, Document]]:
    piece = ""
    for paragraph in paragraphs:
        text = re.sub(r"[ \t]+", " ", paragraph).strip()
        parts = re.split(r"(?<=[.!?;]) ", text) if len(text) > _HIGH else [text] if text else []
        for number, part in enumerate(parts):
            piece += (" " if number and piece else "\n" if piece else "") + part
            if len(piece) > _LOW:
                yield is_held_out(tag + piece[:60], 50), plain(piece)
                piece = ""
    if len(piece) > _LEAST:
        yield is_held_out(tag + piece[:60], 50), plain(piece)


def _simple(text: str) -> str:
    return text.translate(str.maketrans(_PLAIN))
