"""Which data-parallel replica gets a request: the one with the least outstanding work among those with room."""

from __future__ import annotations

from collections.abc import Sequence

from deepinfer.distributed.request_cost import RequestCost


class ReplicaBalancer:
    """Spreads requests over equal replicas by outstanding tokens and cache need.

    A request goes to the replica with the fewest outstanding tokens among those that have room for it; ties go to the
    smaller cache need, then to the lower number. Room means that cache and seats, each times `headroom`, hold what
    the replica has been given and this request; the surplus waits in the replica's own queue, so that it can fill a
    place the moment it is free. A request that no replica has room for stays with the caller: how long requests
    become is known only when they end, so the later one is given away, the better the replicas are balanced. An empty
    replica takes any request.

    Decisions depend on the calls alone, no clock and no random numbers. Results of requests do not depend on the
    replica they ran on, so neither do they depend on these decisions.
    """

    def __init__(self, num_replicas: int, *, cache_tokens: int, seats: int, headroom: float = 1.25) -> None:
        """
        Args:
            num_replicas: replicas, numbered from 0.
            cache_tokens: tokens that the cache of one replica holds.
            seats: sequences that one replica runs at a time.
            headroom: how much more than it can run a replica is given, as a factor of at least 1.
        """
        assert num_replicas >= 1 and cache_tokens >= 1 and seats >= 1 and headroom >= 1
        self._max_cache_tokens = cache_tokens * headroom
        self._max_seats = seats * headroom
        self._tokens = [0] * num_replicas
        self._cache_tokens = [0] * num_replicas
        self._seats = [0] * num_replicas

    @staticmethod
    def order(costs: Sequence[RequestCost]) -> list[int]:
        """In which order to give away requests that are all there: most tokens first, equal ones as they stand.

        A long request that begins last is what makes replicas end at different times.
        """
        return sorted(range(len(costs)), key=lambda number: -costs[number].tokens)

    @property
    def outstanding_tokens(self) -> tuple[int, ...]:
        """Tokens of the unfinished requests of each replica."""
        return tuple(self._tokens)

    @property
    def outstanding_cache_tokens(self) -> tuple[int, ...]:
        """Cache need of the unfinished requests of each replica, in tokens."""
        return tuple(self._cache_tokens)

    def assign(self, cost: RequestCost) -> int | None:
        """The replica that gets a request of this cost, which is booked there until `finish`.

        None: no replica has room; ask again after the next `finish`.
        """
        open_replicas = [replica for replica in range(len(self._tokens)) if self._has_room(replica, cost)]
        if not open_replicas:
            return None
        chosen = min(open_replicas, key=lambda r: (self._tokens[r], self._cache_tokens[r], r))
        self._book(chosen, cost, 1)
        return chosen

    def finish(self, replica: int, cost: RequestCost) -> None:
        """A request that `assign` gave to `replica` at this cost has ended, in whatever way."""
        assert 0 <= replica < len(self._tokens), replica
        self._book(replica, cost, -1)
        assert min(self._tokens[replica], self._cache_tokens[replica], self._seats[replica]) >= 0, "never assigned"

    def _has_room(self, replica: int, cost: RequestCost) -> bool:
        if not self._seats[replica]:
            return True
        fits_cache = self._cache_tokens[replica] + cost.cache_tokens <= self._max_cache_tokens
        return fits_cache and self._seats[replica] + cost.seats <= self._max_seats

    def _book(self, replica: int, cost: RequestCost, sign: int) -> None:
        self._tokens[replica] += sign * cost.tokens
        self._cache_tokens[replica] += sign * cost.cache_tokens
        self._seats[replica] += sign * cost.seats
