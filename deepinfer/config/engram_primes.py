"""The hash moduli of the Engram tables: consecutive primes, none used twice."""

from __future__ import annotations

PrimeTable = tuple[tuple[int, ...], ...]
_BASES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)


def engram_primes(minimum: int, num_orders: int, num_heads: int, num_tables: int) -> tuple[PrimeTable, ...]:
    """Primes [table][order][head] (spec/model.md 9.2).

    The search of every n-gram order restarts at `minimum` (inclusive) and skips primes in use by any order or table,
    so they are simply the next unused primes in (table, order, head) order.
    """
    primes = _primes_from(minimum, num_tables * num_orders * num_heads)
    tables = []
    for table in range(num_tables):
        start = table * num_orders * num_heads
        tables.append(
            tuple(
                tuple(primes[start + order * num_heads : start + (order + 1) * num_heads])
                for order in range(num_orders)
            )
        )
    return tuple(tables)


def _primes_from(minimum: int, count: int) -> list[int]:
    primes: list[int] = []
    candidate = max(2, minimum)
    while len(primes) < count:
        if _is_prime(candidate):
            primes.append(candidate)
        candidate += 1
    return primes


def _is_prime(number: int) -> bool:
    """Miller and Rabin's test; with these bases it is exact below 3.3e24 (Sorenson and Webster, 2015)."""
    for prime in _BASES:
        if number % prime == 0:
            return number == prime
    if number < _BASES[-1] ** 2:
        return number > 1
    twos = (number - 1 & 1 - number).bit_length() - 1
    return all(_passes(number, base, (number - 1) >> twos, twos) for base in _BASES)


def _passes(number: int, base: int, odd: int, twos: int) -> bool:
    power = pow(base, odd, number)
    if power in (1, number - 1):
        return True
    for _ in range(twos - 1):
        power = power * power % number
        if power == number - 1:
            return True
    return False
