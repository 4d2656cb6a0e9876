"""Short tasks with known answers. A generator gives a question, its answer, and a key that tells equal ones apart."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Final

from examples.train_mini.corpus.document import Document, chat, is_held_out
from examples.train_mini.corpus.lookups import lookup_task
from examples.train_mini.corpus.vocabulary import (
    CITIES,
    COLORS,
    FRUITS,
    JOBS,
    NAMES,
    PLACES,
    SURNAMES,
    THINGS,
    WORDS,
)
from examples.train_mini.corpus.whereabouts import whereabouts_task

Task = tuple[str, str, str]
Generator = Callable[[random.Random], Task]


def addition(rng: random.Random) -> Task:
    limit = 100 if rng.random() < 0.8 else 20
    a, b = rng.randrange(limit), rng.randrange(limit)
    forms = ("What is {a} + {b}?", "{a} + {b} = ?", "Compute {a} + {b}.", "Add {a} and {b}.", "What is {a} plus {b}?")
    return rng.choice(forms).format(a=a, b=b), str(a + b), f"add{a},{b}"


def subtraction(rng: random.Random) -> Task:
    a, b = sorted((rng.randrange(100), rng.randrange(100)), reverse=True)
    forms = (
        "What is {a} - {b}?",
        "{a} - {b} = ?",
        "Compute {a} - {b}.",
        "Subtract {b} from {a}.",
        "What is {a} minus {b}?",
    )
    return rng.choice(forms).format(a=a, b=b), str(a - b), f"sub{a},{b}"


def multiplication(rng: random.Random) -> Task:
    a, b = rng.randrange(2, 13), rng.randrange(2, 13)
    form = rng.choice(("What is {a} * {b}?", "{a} * {b} = ?", "Compute {a} * {b}.", "What is {a} times {b}?"))
    return form.format(a=a, b=b), str(a * b), f"mul{form}{a},{b}"


def comparison(rng: random.Random) -> Task:
    a, b = rng.sample(range(100), 2)
    wants_larger = rng.random() < 0.5
    word = rng.choice(("larger", "bigger")) if wants_larger else "smaller"
    answer = max(a, b) if wants_larger else min(a, b)
    return f"Which number is {word}, {a} or {b}?", str(answer), f"cmp{a},{b}"


def sort_numbers(rng: random.Random) -> Task:
    numbers = rng.sample(range(100), rng.randrange(3, 7))
    forms = ("Sort these numbers: {x}", "Sort from smallest to largest: {x}", "Put these numbers in order: {x}")
    asked = rng.choice(forms).format(x=", ".join(map(str, numbers)))
    return asked, ", ".join(map(str, sorted(numbers))), f"sort{numbers}"


def sort_words(rng: random.Random) -> Task:
    words = rng.sample(WORDS, rng.randrange(3, 6))
    return f"Sort these words alphabetically: {', '.join(words)}", ", ".join(sorted(words)), f"sortw{words}"


def reversal(rng: random.Random) -> Task:
    words = rng.sample(WORDS, rng.randrange(3, 7))
    return f"Reverse this list: {', '.join(words)}", ", ".join(reversed(words)), f"rev{words}"


def counting(rng: random.Random) -> Task:
    words = [rng.choice(WORDS) for _ in range(rng.randrange(2, 10))]
    return f"How many words are in this list? {', '.join(words)}", str(len(words)), f"count{words}"


def copying(rng: random.Random) -> Task:
    words = [rng.choice(WORDS + NAMES + COLORS + CITIES) for _ in range(rng.randrange(4, 14))]
    if rng.random() < 0.3:
        digits = "".join(rng.choice("0123456789") for _ in range(rng.randrange(2, 6)))
        words[rng.randrange(len(words))] = digits
    text = " ".join(words)
    forms = ("Repeat: {x}", "Repeat after me: {x}", "Copy this text exactly: {x}")
    return rng.choice(forms).format(x=text), text, f"copy{words}"


def extraction(rng: random.Random) -> Task:
    """Three facts of a sentence, as JSON."""
    kind = rng.randrange(4)
    if kind == 0:
        facts = {"name": f"{rng.choice(NAMES)} {rng.choice(SURNAMES)}", "age": rng.randrange(18, 90)}
        facts["city"] = rng.choice(CITIES)
        forms = (
            "{name} is {age} years old and lives in {city}.",
            "{name}, aged {age}, comes from {city}.",
            "My neighbor {name} moved to {city} at the age of {age}.",
            "In {city} I met {name}, who is {age}.",
        )
    elif kind == 1:
        facts = {"item": rng.choice(FRUITS), "quantity": rng.randrange(2, 40), "price": rng.randrange(1, 60)}
        forms = (
            "She bought {quantity} {item}s for {price} dollars.",
            "The order has {quantity} {item}s and costs {price} dollars.",
            "For {price} dollars you get {quantity} {item}s.",
        )
    elif kind == 2:
        facts = {"name": rng.choice(NAMES), "job": rng.choice(JOBS), "city": rng.choice(CITIES)}
        forms = (
            "{name} works as a {job} in {city}.",
            "{name} is a {job} from {city}.",
            "The {job} in {city} is called {name}.",
        )
    else:
        facts = {"color": rng.choice(COLORS), "object": rng.choice(THINGS), "place": rng.choice(PLACES)}
        forms = (
            "The {color} {object} is in the {place}.",
            "I left a {color} {object} near the {place}.",
            "Someone found the {color} {object} at the {place}.",
        )
    sentence = rng.choice(forms).format(**facts)
    first, second, third = facts
    return f"Extract {first}, {second} and {third} as JSON: {sentence}", json.dumps(facts), sentence


TASKS: Final[Mapping[str, Generator]] = {
    "add": addition,
    "sub": subtraction,
    "mul": multiplication,
    "compare": comparison,
    "sort": sort_numbers,
    "sortwords": sort_words,
    "reverse": reversal,
    "count": counting,
    "copy": copying,
    "json": extraction,
    "needle": lookup_task,
    "where": whereabouts_task,
}
_TRAINED: Final = [name for name in TASKS if name not in ("needle", "where")] + ["add", "sort", "json"]


def task_chat(rng: random.Random) -> Document:
    """One to four short tasks; held-out instances never appear."""
    turns = []
    for _ in range(rng.choice([1, 1, 2, 3, 4])):
        while True:
            asked, answer, key = TASKS[rng.choice(_TRAINED)](rng)
            if not is_held_out(key):
                break
        turns.append((asked, answer))
    return chat(*turns)
