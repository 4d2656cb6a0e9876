"""People walk about and hand things on; where is who, and who has what?"""

from __future__ import annotations

import random

from examples.train_mini.corpus.document import Document, Turn, chat
from examples.train_mini.corpus.vocabulary import NAMES, PLACES, THINGS


def whereabouts_chat(rng: random.Random) -> Document:
    """A tale and up to four questions."""
    tale, turns = _tale(rng, rng.randrange(3, 12))
    rng.shuffle(turns)
    turns = turns[:4]
    return chat((f"{tale} {turns[0][0]}", turns[0][1]), *turns[1:])


def whereabouts_task(rng: random.Random) -> tuple[str, str, str]:
    """One question: question, answer, key."""
    tale, turns = _tale(rng, rng.randrange(3, 9))
    asked, answer = rng.choice(turns)
    return f"{tale} {asked}", answer, tale


def _tale(rng: random.Random, num_steps: int) -> tuple[str, list[Turn]]:
    people, places, things = rng.sample(NAMES, 3), rng.sample(PLACES, 4), rng.sample(THINGS, 2)
    spots: dict[str, str] = {}
    owners: dict[str, str] = {}
    lines = []
    for _ in range(num_steps):
        person = rng.choice(people)
        if person not in spots or rng.random() < 0.6:
            spots[person] = rng.choice([place for place in places if place != spots.get(person)])
            verb = rng.choice(["went to", "walked to", "ran to"])
            lines.append(f"{person} {verb} the {spots[person]}.")
            continue
        free = [thing for thing in things if thing not in owners]
        if free:
            thing = rng.choice(free)
            lines.append(f"{person} picked up the {thing}.")
        else:
            thing = rng.choice(things)
            giver, person = owners[thing], rng.choice([name for name in people if name != owners[thing]])
            lines.append(f"{giver} gave the {thing} to {person}.")
        owners[thing] = person
    turns = [(f"Where is {person}?", f"{person} is in the {place}.") for person, place in spots.items()]
    turns += [(f"Who has the {thing}?", f"{person} has the {thing}.") for thing, person in owners.items()]
    return " ".join(lines), turns
