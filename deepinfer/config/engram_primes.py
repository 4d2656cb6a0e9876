"""The hash moduli of the Engram tables: consecutive primes, none used twice."""

from __future__ import annotations

PrimeTable = tuple[tuple[int, ...], ...]


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
    if number < 4:
        return number > 1
    if number % 2 == 0:
        return False
    divisor = 3
    while divisor * divisor <= number:
        if number % divisor == 0:
            return False
        divisor += 2
    return True
