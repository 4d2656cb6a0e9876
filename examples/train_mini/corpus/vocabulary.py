"""Words that tasks and stories are made of."""

from __future__ import annotations

from typing import Final


def _words(text: str) -> list[str]:
    return text.split()


NAMES: Final = _words(
    "Anna Ben Clara David Emma Felix Grace Henry Iris Jack Kate Leo Mia Noah Olga Paul Rosa Sam Tina Victor Alice "
    "Bruno Carla Daniel Elena Frank Gina Hugo Ivan Julia Karl Lucy Maria Nina Oscar Peter Ruth Simon Thomas Vera "
    "Walter Zoe"
)
SURNAMES: Final = _words(
    "Smith Lopez Novak Rossi Tanaka Berg Costa Dubois Evans Fischer Garcia Hansen Ivanov Jensen Keller Larsen "
    "Meyer Nilsson Okafor Park Quinn Reyes Silva Turner Usman Vargas Weber Young Zhang Moreau"
)
CITIES: Final = _words(
    "Oslo Paris London Madrid Rome Vienna Berlin Prague Lisbon Dublin Athens Warsaw Cairo Lima Quito Tokyo Seoul "
    "Delhi Nairobi Toronto Boston Chicago Sydney Geneva Hamburg Milan Porto Lyon Krakow Bergen"
)
JOBS: Final = _words(
    "teacher doctor baker farmer pilot nurse painter driver writer lawyer cook gardener singer carpenter engineer "
    "sailor"
)
FRUITS: Final = _words("apple pear plum grape lemon peach cherry orange banana melon fig mango")
THINGS: Final = _words(
    "ball book key lamp cup hat coin box map ring bell kite drum shoe stone letter spoon clock rope brush basket "
    "candle mirror ticket"
)
PLACES: Final = _words(
    "garden kitchen library market school forest station barn harbor office bakery tower cellar park museum bridge"
)
COLORS: Final = _words("red blue green yellow black white brown gray pink purple orange golden silver")
ANIMALS: Final = _words(
    "fox bear rabbit owl mouse cat dog horse frog duck goat wolf hen lion turtle squirrel crow deer pig donkey"
)
ADJECTIVES: Final = _words(
    "small big old young happy sad brave clever quiet kind hungry tired gentle proud curious lazy lonely friendly "
    "shy busy"
)
_MORE: Final = _words(
    "river cloud window paper silver winter summer music bread water sugar table chair door wall road tree leaf "
    "wind snow rain fire earth moon star sun wheel boat train plane horn flag sand glass iron wood wool silk salt "
    "pepper honey milk cheese butter soup plate knife fork bottle bucket ladder hammer nail saw pen desk page "
    "story song dance dream voice smile hand arm head foot eye ear nose mouth heart"
)
WORDS: Final = sorted({*THINGS, *PLACES, *ANIMALS, *FRUITS, *_MORE})
